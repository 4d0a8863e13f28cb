"""What a company is told of its emails: events of its tenant, which its webhooks get.

The recipient is masked; who is meant is told by the id of the email, and by the company's own.
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
"""What our codes are called outside; others of SES are SES_ERROR, the rest INTERNAL_ERROR."""


def failure_code(code: str) -> str:
    """The code as companies know it."""
    known = FAILURE_CODES.get(code)
    return known or ("SES_ERROR" if code.startswith("SES_") else "INTERNAL_ERROR")


def tell_move(row: OutboxEmail, status: str, detail: dict[str, Any]) -> None:
    """The company is told that its email is there now, in the caller's transaction."""
    topic = TOPICS.get(Status(status))
    if topic is None:
        return
    told = {"attempt": detail.get("attempt", row.attempts)}
    if code := detail.get("code"):
        told |= {"failureCode": failure_code(code), "code": code}
    _emit(topic, row, status, told)


def tell_feedback(row: OutboxEmail, code: str, address: str) -> None:
    """The company is told what became of a mail that its provider had taken."""
    _emit("email.failed", row, row.status, {"failureCode": code, "address": mask_email(address)})


def _emit(topic: str, row: OutboxEmail, status: str, told: dict[str, Any]) -> None:
    payload = {
        "outboxId": str(row.pk),
        "requestId": row.request_id,
        "status": status,
        "recipient": {"email": mask_email(row.to)},
        **({"externalId": row.external_id} if row.external_id else {}),
        **({"tags": row.tags} if row.tags else {}),
        **told,
    }
    jobs.emit(topic, payload, key=f"email:{row.pk}", tenant=str(row.company_id))
