"""Webhook for bounces, complaints and deliveries that Amazon SES reports through SNS."""

from __future__ import annotations

from typing import Any

from anymail.exceptions import AnymailWebhookValidationFailure
from anymail.webhooks.amazon_ses import AmazonSESTrackingWebhookView
from django.http import HttpRequest

from emailgw import config
from emailgw.clients import sns
from emailgw.clock import now


class SesEvents(AmazonSESTrackingWebhookView):  # type: ignore[misc]
    """Accept only messages that SNS signed for a configured topic."""

    warn_if_no_basic_auth = False

    def validate_request(self, request: HttpRequest) -> None:
        """Raise AnymailWebhookValidationFailure, which returns 400."""
        try:
            message = self._parse_sns_message(request)
            if not isinstance(message, dict):
                raise sns.Forged("it is not an object")
            sns.verify(message, config.settings().SNS_TOPICS, now())
        except sns.Forged as error:
            raise AnymailWebhookValidationFailure(f"SNS message refused: {error}") from None
        except Exception as error:  # anymail would quote the body
            raise AnymailWebhookValidationFailure(
                f"SNS message refused: {type(error).__name__}"
            ) from None

    def parse_events(self, request: HttpRequest) -> list[Any]:
        """Raise AnymailWebhookValidationFailure if the signed message is not an SES event."""
        try:
            found: list[Any] = super().parse_events(request)
        except AnymailWebhookValidationFailure:
            raise
        except Exception as error:  # its text, which the log would quote, may name a person
            raise AnymailWebhookValidationFailure(
                f"SNS message refused: it is no event ({type(error).__name__})"
            ) from None
        return found

    def auto_confirm_sns_subscription(self, sns_message: dict[str, Any]) -> None:
        """Confirm a subscription to a configured topic; the message is already verified."""
        try:
            sns.confirm(sns_message)
        except sns.Forged as error:
            raise AnymailWebhookValidationFailure(f"SNS message refused: {error}") from None
