"""Write the outcome of an attempt to the email and its log entry."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import transaction

from emailgw import states
from emailgw.clock import now
from emailgw.models import EmailEvent, EmailLog, OutboxEmail, Status
from emailgw.provider_text import REASON_LIMIT

if TYPE_CHECKING:
    from emailgw.pipeline import Attempt


def put_off(attempt: Attempt, code: str, reason: str) -> None:
    """Move the email to RETRY_SCHEDULED."""
    states.outbox.move(
        attempt.row, Status.RETRY_SCHEDULED, expect=Status.SENT_ATTEMPT, by="worker",
        error_code=code, error_reason=reason[:REASON_LIMIT], attempts=attempt.number,
    )  # fmt: skip


def fail(attempt: Attempt, code: str, reason: str) -> None:
    """Move the email to FAILED or EXPIRED, unless it has ended or is gone."""
    to = Status.EXPIRED if code == "EXPIRED" else Status.FAILED
    moment = now()
    with transaction.atomic():
        row = (
            OutboxEmail.objects.select_for_update(no_key=True)
            .filter(pk=attempt.data.outboxId, company_id=attempt.data.companyId)
            .first()
        )
        if row is None or row.status not in states.OPEN:
            return
        write_log(attempt, row, to, moment, code=code)
        states.outbox.move(
            row, to, by="worker", error_code=code, error_reason=reason[:REASON_LIMIT],
            attempts=attempt.number, processed_at=moment, in_doubt=False,
        )  # fmt: skip


def note_no_reply(attempt: Attempt, code: str, reason: str) -> None:
    """Add to the history that the content was transmitted and not confirmed."""
    detail = {"code": code, "reason": reason[:REASON_LIMIT], "attempt": attempt.number}
    EmailEvent.objects.create(outbox=attempt.row, type="NO_REPLY", source="worker", detail=detail)


def mark_doubt(attempt: Attempt) -> None:
    """Mark the email as in doubt, and add that to its history."""
    reason = "it may or may not have been sent"
    with transaction.atomic():
        OutboxEmail.objects.filter(pk=attempt.data.outboxId).update(
            in_doubt=True, error_code="IN_DOUBT", error_reason=reason
        )
        EmailEvent.objects.create(
            outbox=attempt.row, type="IN_DOUBT", source="worker",
            detail={"code": "IN_DOUBT", "reason": reason, "attempt": attempt.number},
        )  # fmt: skip


def write_log(
    attempt: Attempt, row: OutboxEmail, status: str, moment: datetime, *, message_id: str = "",
    code: str = "",
) -> None:  # fmt: skip
    """Insert the log entry of the email, or replace that of an earlier end."""
    is_sent = status == Status.SENT
    values: dict[str, Any] = {
        "company_id": row.company_id,
        "status": status,
        "provider": row.provider,
        "provider_message_id": message_id or None,
        "attempts": attempt.number,
        "duration_ms": attempt.elapsed_ms,
        "error_code": code,
        "sent_at": moment if is_sent else None,
        "failed_at": None if is_sent else moment,
    }
    EmailLog.objects.bulk_create(
        [EmailLog(outbox_id=row.pk, **values)],
        update_conflicts=True,
        unique_fields=["outbox"],
        update_fields=[
            name.removesuffix("_id") if name == "company_id" else name for name in values
        ],
    )
