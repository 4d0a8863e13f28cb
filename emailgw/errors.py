"""What can go wrong with an email: codes, and what follows from each."""

from __future__ import annotations

from typing import Literal

import jobs

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


class ProviderError(Exception):
    """Handing the mail over did not go well. ``reason`` may be anybody's words: mask it."""

    def __init__(self, code: str, reason: str = "") -> None:
        self.code, self.reason = code, reason
        super().__init__(f"{code}: {reason}" if reason else code)

    @property
    def category(self) -> Category:
        return CATEGORIES[self.code]


class NotSent(ProviderError):
    """The provider has not taken the mail, and will not by itself."""


class Down(NotSent):
    """Nor would it take any other mail now: what a circuit breaker counts."""


class MaybeSent(ProviderError):
    """The mail was handed over, and no answer came."""


class Invalid(Exception):
    """One of the validations of the pipeline failed, which is final."""

    def __init__(self, code: str, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(f"{code}: {reason}")


class Refused(jobs.JobsError):
    """A request is not accepted, and nothing of it was written."""

    def __init__(self, code: str, message: str, field: str = "", retry_after: int = 0) -> None:
        self.code, self.message, self.field = code, message, field
        self.retry_after = retry_after
        super().__init__(f"{field}: {message}" if field else message)
