"""Emails whose jobs came to an end without them: expired, cancelled, given up after crashes."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction

import jobs
from emailgw import states
from emailgw.clock import now
from emailgw.models import EmailLog, IdempotencyKey, OutboxEmail, Status

PORTION = 500
QUIET = timedelta(seconds=5)
"""An email as young as this may be about to be moved by its own job."""
_CODES = {
    "bad_payload": "INVALID_PAYLOAD",
    "timeout": "SES_TIMEOUT",
}


def sweep() -> dict[str, int]:
    """Every email that is open has a job that is; answers how many were closed, by how."""
    moment = now()
    IdempotencyKey.objects.filter(expires_at__lt=moment).delete()
    closed = {"expired": 0, "failed": 0, "in_doubt": 0}
    last = None
    while True:
        found = OutboxEmail.objects.filter(
            status__in=states.OPEN, enqueued_at__lt=moment - QUIET
        ).order_by("id")  # fmt: skip
        if last is not None:
            found = found.filter(id__gt=last)
        ids = list(found.values_list("id", flat=True)[:PORTION])
        if not ids:
            return closed
        last = ids[-1]
        unfinished = ("blocked", "pending", "queued", "running", "succeeded")
        ended = jobs.Job.objects.filter(pk__in=ids).exclude(state__in=unfinished)
        for job_id, state, reason in ended.values_list("id", "state", "reason"):
            if how := _close(job_id, state, reason):
                closed[how] += 1


def _close(outbox_id: UUID, state: str, reason: str) -> str:
    """The email says how its job ended; answers how, or nothing where it says so already."""
    with transaction.atomic():
        row = OutboxEmail.objects.select_for_update(no_key=True).get(pk=outbox_id)
        job = jobs.Job.objects.filter(pk=outbox_id).values_list("state", "reason").first()
        if row.status not in states.OPEN or job != (state, reason):
            return ""
        if reason == "in_doubt" or row.status == Status.SENT_ATTEMPT:
            if row.in_doubt:
                return ""
            row.in_doubt, row.error_code = True, "IN_DOUBT"
            row.save(update_fields=["in_doubt", "error_code"])
            return "in_doubt"
        is_expired = state == "expired"
        code = "EXPIRED" if is_expired else _CODES.get(reason, "UNKNOWN_ERROR")
        if state == "cancelled":
            code = "CANCELLED"
        to = Status.EXPIRED if is_expired else Status.FAILED
        moment = now()
        EmailLog.objects.update_or_create(
            outbox=row,
            defaults={
                "company_id": row.company_id, "status": to, "provider": row.provider,
                "attempts": row.attempts, "duration_ms": 0, "error_code": code,
                "failed_at": moment,
            },
        )  # fmt: skip
        states.outbox.move(
            row, to, by="sweeper", error_code=code, error_reason=f"its job is {state}",
            processed_at=moment,
        )  # fmt: skip
        return "expired" if is_expired else "failed"
