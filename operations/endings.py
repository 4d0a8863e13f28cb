"""What becomes of an operation whose job ended without its handler."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

import jobs
from jobs.models import Effect
from operations import mirror, order, payloads, states
from operations.models import Operation, Outcome, Phase, SyncRun
from operations.services import syncs
from operations.table import Family
from operations.writes import EFFECT

BY = "jobs"
CHECK_PRIORITY = 100
EVERY = 300
"""Seconds between two questions while the ERP is away."""


def close(ended: jobs.types.Ended) -> None:
    """Close the operation; a write whose outcome is unknown is looked up in the ERP first."""
    row = (
        Operation.objects.select_for_update(of=("self",)).select_related("agent")
        .filter(pk=ended.id, tenant=ended.tenant).first()
    )  # fmt: skip
    if row is None or row.spec.kind != ended.kind:
        return
    if row.phase in (Phase.COMPLETED, *states.ENDED):
        return
    code = ended.reason if ended.state == jobs.JobState.FAILED else ended.state.value
    if row.phase in (Phase.ERP_SAVE_DONE, Phase.DB_COMMITTED):
        if not row.error_code:
            row.error_code = code[:60]
            row.save(update_fields=["error_code"])
        if not row.awaits_decision:
            # What ran out of time may do better at once; what failed waits a little.
            check(row, 0 if code in ("timeout", "cancelled") else EVERY)
        return
    end = Phase.CANCELLED if ended.state == jobs.JobState.CANCELLED else Phase.FAILED
    effect = ended.effects.get(EFFECT, "failed")
    if effect == "failed":
        finish(row, Phase(row.wanted_end or end), code)
        return
    if effect == "done":
        path = [Phase.IN_PROGRESS, Phase.ERP_SAVE_DONE]
        _walk(row, path, erp_id=_outcome(row), error_code=code[:60])
    else:
        _walk(row, [Phase.IN_PROGRESS, Phase.IN_DOUBT], wanted_end=end, error_code=code[:60])
    check(row)


def _walk(row: Operation, path: list[Phase], **fields: Any) -> None:
    if row.phase == path[-1]:
        return
    if row.phase == path[0] or row.phase == Phase.IN_DOUBT:
        path = path[1:]
    why = fields["error_code"] if fields["error_code"] != Phase.IN_DOUBT else ""
    states.operation.walk(row, path, by=BY, why=why, **fields)


def _outcome(row: Operation) -> str:
    found: Any = Effect.objects.get(job_id=row.pk, key=EFFECT).outcome
    return str(found["id"])


def finish(row: Operation, to: Phase, code: str, by: str = BY, why: str = "") -> None:
    """Move an operation to an end at which nothing was saved."""
    known = row.error_code if row.error_code and row.phase != Phase.IN_DOUBT else code
    is_cancelled = to == Phase.CANCELLED
    states.operation.move(
        row, to, by=by, why=why or (code if is_cancelled else known),
        error_code="" if is_cancelled else known[:60], ended_at=timezone.now(), wanted_end="",
    )  # fmt: skip
    if row.spec.family is Family.SYNC:
        SyncRun.objects.filter(pk=row.pk, outcome=Outcome.RUNNING).update(
            outcome=Outcome.FAILED, error_code=known[:60], ended_at=timezone.now()
        )
        if to == Phase.FAILED:
            syncs.failed(row.agent_id, row.type)
        mirror.forget_export(row)
    elif row.is_write:
        mirror.remove_temporary(row)
        order.wake_later(row)


def check(row: Operation, delay: int = 0) -> None:
    """Enqueue the run that asks the ERP, and writes nothing."""
    jobs.enqueue(
        payloads.CheckTask(operation=str(row.pk)), tenant=row.tenant, priority=CHECK_PRIORITY,
        exclusive=f"agent:{row.agent_id}", unique=jobs.Unique(f"check-{row.pk}"),
        delay=timedelta(seconds=delay),
    )  # fmt: skip
