"""Emails whose jobs came to an end without them: expired, cancelled, given up after crashes."""

from __future__ import annotations

import jobs
from emailgw import states
from emailgw.clock import now
from emailgw.models import EmailLog, OutboxEmail, Status

_CODES = {"bad_payload": "INVALID_PAYLOAD", "timeout": "SES_TIMEOUT"}


def close(ended: jobs.Ended) -> None:
    """The email says how its job ended, if it does not yet; in the caller's transaction.

    One whose content had begun to leave is in doubt; any other was surely not sent.
    """
    row = OutboxEmail.objects.select_for_update(no_key=True).filter(pk=ended.id).first()
    if row is None or row.status not in states.OPEN or row.in_doubt:
        return
    if row.status == Status.SENT_ATTEMPT and row.handed_over:
        row.in_doubt, row.error_code = True, "IN_DOUBT"
        row.save(update_fields=["in_doubt", "error_code"])
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
        processed_at=moment,
    )  # fmt: skip


def _code(ended: jobs.Ended) -> str:
    if ended.state == jobs.JobState.FAILED:
        return _CODES.get(ended.reason, "UNKNOWN_ERROR")
    return ended.state.value.upper()
