"""Errors of the gateway: their codes, and whether each is retried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import jobs
from emailgw.provider_text import known_words

Category = Literal[
    "VALIDATION_ERROR",
    "TRANSIENT_ERROR",
    "PERMANENT_ERROR",
    "QUOTA_ERROR",
    "CONFIGURATION_ERROR",
    "TIMEOUT_ERROR",
]
RETRIED: frozenset[Category] = frozenset({"TRANSIENT_ERROR", "QUOTA_ERROR", "TIMEOUT_ERROR"})

CATEGORIES: dict[str, Category] = {
    "INVALID_PAYLOAD": "VALIDATION_ERROR",
    "OUTBOX_NOT_FOUND": "VALIDATION_ERROR",
    "RECIPIENT_NOT_FOUND": "VALIDATION_ERROR",
    "RECIPIENT_SUPPRESSED": "VALIDATION_ERROR",
    "INVALID_TEMPLATE": "VALIDATION_ERROR",
    "INVALID_EMAIL": "PERMANENT_ERROR",
    "COMPANY_SUSPENDED": "CONFIGURATION_ERROR",
    "SMTP_NOT_AUTHORIZED": "CONFIGURATION_ERROR",
    "SMTP_SENDER_REFUSED": "CONFIGURATION_ERROR",
    "SES_NOT_AUTHORIZED": "CONFIGURATION_ERROR",
    "SES_SENDER_REFUSED": "CONFIGURATION_ERROR",
    "SES_MESSAGE_REJECTED": "PERMANENT_ERROR",
    "SES_MAIL_FROM_DOMAIN_NOT_VERIFIED": "CONFIGURATION_ERROR",
    "SES_CONFIGURATION_SET_DOES_NOT_EXIST": "CONFIGURATION_ERROR",
    "SES_ACCOUNT_SENDING_PAUSED": "CONFIGURATION_ERROR",
    "SES_SERVICE_UNAVAILABLE": "TRANSIENT_ERROR",
    "SES_THROTTLING": "TRANSIENT_ERROR",
    "SES_TIMEOUT": "TIMEOUT_ERROR",
    "SES_CIRCUIT_OPEN": "TRANSIENT_ERROR",
    "SES_MAX_SEND_RATE_EXCEEDED": "QUOTA_ERROR",
    "SES_DAILY_QUOTA_EXCEEDED": "QUOTA_ERROR",
    "SMTP_DEFERRED": "TRANSIENT_ERROR",
    "SMTP_REJECTED": "PERMANENT_ERROR",
    "NETWORK_ERROR": "TRANSIENT_ERROR",
    "DNS_ERROR": "TRANSIENT_ERROR",
    "TIMEOUT": "TIMEOUT_ERROR",
    "UNKNOWN_ERROR": "TRANSIENT_ERROR",
}

HELD = frozenset(
    {"SMTP_NOT_AUTHORIZED", "SMTP_SENDER_REFUSED", "SES_NOT_AUTHORIZED", "SES_SENDER_REFUSED"}
)
"""The provider refuses the gateway or the sender, whatever the recipient: mail waits until this is
fixed, without using an attempt."""


class ProviderError(Exception):
    """The provider did not confirm the email.

    ``said`` is the provider's text; ``reason`` is the part of it that is safe to store and show.
    """

    def __init__(self, code: str, said: str = "") -> None:
        self.code, self.reason = code, known_words(said)
        super().__init__(f"{code}: {self.reason}" if said else code)

    @property
    def category(self) -> Category:
        return CATEGORIES[self.code]


class NotSent(ProviderError):
    """The provider has certainly not accepted the email."""


class Down(NotSent):
    """The provider accepts no mail at all now; it failed before naming a sender or recipient."""


class Locked(Down):
    """The provider refuses the gateway's credentials, or they are missing."""


class SenderDown(NotSent):
    """The provider accepts no mail of this sender now; it failed before naming a recipient."""


class SenderRefused(SenderDown):
    """The provider refuses this sender until its configuration is fixed."""


class MaybeSent(ProviderError):
    """The email was transmitted, but the provider's reply is missing or unreadable."""


class Invalid(Exception):
    """A validation of the pipeline failed. The email is not retried."""

    def __init__(self, code: str, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(f"{code}: {reason}")


class Refused(jobs.JobsError):
    """A request was refused, and nothing of it was stored.

    ``others`` are the fields and messages of further problems, if there are several.
    """

    def __init__(
        self,
        code: str,
        message: str,
        field: str = "",
        retry_after: int = 0,
        others: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.code, self.message, self.field = code, message, field
        self.retry_after, self.others = retry_after, tuple(others)
        Exception.__init__(self, f"{field}: {message}" if field else message)

    def within(self, name: str) -> Refused:
        """Return the same refusal of a request that is a member of a larger one."""
        others = [(f"{name}.{field}", message) for field, message in self.others]
        field = f"{name}.{self.field}" if self.field else ""
        return Refused(self.code, self.message, field, self.retry_after, others)


class Forbidden(Refused, jobs.errors.Denied):
    """The caller lacks a permission."""

    def __init__(self, permission: str) -> None:
        Refused.__init__(self, "FORBIDDEN", f"needs the permission {permission}")
        self.permission = permission
