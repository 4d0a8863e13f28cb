"""End callback: updates emails whose job expired, was cancelled, or crashed."""

from __future__ import annotations

import jobs
from emailgw import states
from emailgw.clock import now
from emailgw.models import EmailEvent, EmailLog, OutboxEmail, Status
from emailgw.pipeline import EFFECT

_CODES = {
    "bad_payload": "INVALID_PAYLOAD",
    "in_doubt": "NOT_SENT",
    "timeout": "SES_TIMEOUT",
}


def close_email(ended: jobs.types.Ended) -> None:
    """Copy the end of the job to its email, in the transaction that ends the job.

    If the content may already have left, the email is marked in doubt until a person decides that
    it was not sent. Any other email was certainly not sent.
    """
    row = OutboxEmail.objects.select_for_update(no_key=True).filter(pk=ended.id).first()
    was_not_sent = ended.effects.get(EFFECT) == "failed"
    if row is None or row.status not in states.OPEN or (row.in_doubt and not was_not_sent):
        return
    if row.status == Status.SENT_ATTEMPT and row.handed_over and not was_not_sent:
        row.in_doubt, row.error_code = True, "IN_DOUBT"
        row.error_reason = f"it may or may not have been sent: its job is {ended.state.value}"
        row.save(update_fields=["in_doubt", "error_code", "error_reason"])
        EmailEvent.objects.create(
            outbox=row, type="IN_DOUBT", source="gateway",
            detail={"code": "IN_DOUBT", "reason": row.error_reason, "attempt": row.attempts},
        )  # fmt: skip
        return
    to = Status.EXPIRED if ended.state == jobs.JobState.EXPIRED else Status.FAILED
    code = _code(ended)
    moment = now()
    EmailLog.objects.update_or_create(
        outbox=row,
        defaults={
            "company_id": row.company_id, "status": to, "provider": row.provider,
            "attempts": row.attempts, "duration_ms": 0, "error_code": code, "failed_at": moment,
        },
    )  # fmt: skip
    states.outbox.move(
        row, to, by="gateway", error_code=code, error_reason=f"its job is {ended.state.value}",
        processed_at=moment, in_doubt=False,
    )  # fmt: skip


def _code(ended: jobs.types.Ended) -> str:
    if ended.state == jobs.JobState.FAILED:
        return _CODES.get(ended.reason, "UNKNOWN_ERROR")
    return ended.state.value.upper()
