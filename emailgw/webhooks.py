"""Where Amazon SES reports bounces, complaints and deliveries, through SNS."""

from __future__ import annotations

from typing import Any

from anymail.exceptions import AnymailWebhookValidationFailure
from anymail.webhooks.amazon_ses import AmazonSESTrackingWebhookView
from django.http import HttpRequest

from emailgw import config
from emailgw.clients import sns
from emailgw.clock import now


class SesEvents(AmazonSESTrackingWebhookView):  # type: ignore[misc]
    """Takes what SNS has signed for one of our topics, and nothing else."""

    warn_if_no_basic_auth = False

    def validate_request(self, request: HttpRequest) -> None:
        """Raises AnymailWebhookValidationFailure, which is answered by 400."""
        try:
            message = self._parse_sns_message(request)
            if not isinstance(message, dict):
                raise sns.Forged("it is no object")
            sns.verify(message, config.settings().SNS_TOPICS, now())
        except sns.Forged as error:
            raise AnymailWebhookValidationFailure(f"SNS message refused: {error}") from None
        except Exception as error:  # anymail would quote the body
            raise AnymailWebhookValidationFailure(
                f"SNS message refused: {type(error).__name__}"
            ) from None

    def auto_confirm_sns_subscription(self, sns_message: dict[str, Any]) -> None:
        """A subscription to a topic of ours is confirmed; the message is verified by now."""
        try:
            sns.confirm(sns_message)
        except sns.Forged as error:
            raise AnymailWebhookValidationFailure(f"SNS message refused: {error}") from None
