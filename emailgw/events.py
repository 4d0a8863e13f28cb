"""Events about emails, published to the company's webhooks.

The recipient is masked; the company identifies the email by its id or by its own external id.
"""

from __future__ import annotations

from typing import Any

import jobs
from emailgw.models import OutboxEmail, Status
from jobs.fields import mask_email

TOPICS = {
    Status.SENT: "email.sent",
    Status.FAILED: "email.failed",
    Status.RETRY_SCHEDULED: "email.retry_scheduled",
    Status.EXPIRED: "email.expired",
}
FAILURE_CODES = {
    "INVALID_EMAIL": "INVALID_RECIPIENT",
    "RECIPIENT_NOT_FOUND": "INVALID_RECIPIENT",
    "RECIPIENT_SUPPRESSED": "INVALID_RECIPIENT",
    "INVALID_PAYLOAD": "INVALID_CONTENT",
    "INVALID_TEMPLATE": "INVALID_CONTENT",
    "SES_MESSAGE_REJECTED": "INVALID_CONTENT",
    "SMTP_REJECTED": "BOUNCE_PERMANENT",
    "SMTP_DEFERRED": "BOUNCE_TEMPORARY",
    "SES_THROTTLING": "SES_THROTTLE",
    "SES_MAX_SEND_RATE_EXCEEDED": "SES_THROTTLE",
    "SES_DAILY_QUOTA_EXCEEDED": "SES_THROTTLE",
}
"""Public names of error codes; other SES codes are SES_ERROR, the rest INTERNAL_ERROR."""


def failure_code(code: str) -> str:
    """Return the public name of an error code."""
    known = FAILURE_CODES.get(code)
    return known or ("SES_ERROR" if code.startswith("SES_") else "INTERNAL_ERROR")


def publish_transition(row: OutboxEmail, status: str, detail: dict[str, Any]) -> None:
    """Publish a change of status, in the caller's transaction."""
    topic = TOPICS.get(Status(status))
    if topic is None:
        return
    data = {"attempt": detail.get("attempt", row.attempts)}
    if code := detail.get("code"):
        data |= {"failureCode": failure_code(code), "code": code}
    _emit(topic, row, status, data)


def publish_feedback(row: OutboxEmail, code: str, address: str) -> None:
    """Publish a bounce or complaint about an email that the provider had accepted."""
    _emit("email.failed", row, row.status, {"failureCode": code, "address": mask_email(address)})


def _emit(topic: str, row: OutboxEmail, status: str, data: dict[str, Any]) -> None:
    payload = {
        "outboxId": str(row.pk),
        "requestId": row.request_id,
        "status": status,
        "recipient": {"email": mask_email(row.to)},
        **({"externalId": row.external_id} if row.external_id else {}),
        **({"tags": row.tags} if row.tags else {}),
        **data,
    }
    # Vouched: ids and tags are the company's own values and must not be redacted.
    jobs.emit(topic, jobs.types.Vouched(payload), key=f"email:{row.pk}", tenant=str(row.company_id))
