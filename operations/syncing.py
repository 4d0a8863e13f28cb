"""Running a sync as a job: stops become those of the job, and the run is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

import jobs
from operations import checking, mirror, payloads, running, states
from operations.config import settings
from operations.models import Operation, Outcome, Phase, SyncRun, SyncState
from operations.progress import Progress
from operations.sync import SYNCS, ExportInvalid, Result, SyncStopped


def run(ctx: jobs.Context, task: payloads.Task) -> dict[str, Any]:
    """Run a sync, from its downloaded export if it was preempted after that."""
    row = running.begin(ctx, task)
    if row.phase == Phase.COMPLETED:
        return {"success": True, "data": row.result}
    with transaction.atomic():
        ctx.fence()
        record, _made = SyncRun.objects.get_or_create(
            operation=row, defaults={"agent": row.agent, "tenant": row.tenant, "type": row.type}
        )
    with running.attempt(ctx, row):
        deps = mirror.Store(
            ctx, row, lambda: _download(ctx, row, record), partial(_settle, ctx, row)
        )
        try:
            found = SYNCS[row.type](deps, row.agent_id, Progress(ctx, row), ctx.should_stop)
        except SyncStopped as stopped:
            _count(record, stopped.so_far)
            with suppress(jobs.errors.StaleClaim), transaction.atomic():
                ctx.fence()
                record.save(update_fields=["new", "updated", "deleted"])
            ctx.checkpoint()
            raise
        except ExportInvalid as error:
            _fail(ctx, row, record, error.code)
            raise jobs.Unrecoverable(error.code) from None
    result = _finish(ctx, row, record, found)
    mirror.forget_export(row)
    return result


def _download(ctx: jobs.Context, row: Operation, record: SyncRun) -> Iterator[bytes]:
    # No shorter than the attempt: its own timeout ends the download, and is no failure of the ERP.
    found = settings()
    with running.session(ctx, row.agent, found.EXPORT_LIMIT, found.EXPORT_TIMEOUT) as erp:
        record.downloads += 1
        record.save(update_fields=["downloads"])
        yield from erp.export(row.type)


def _settle(ctx: jobs.Context, row: Operation, reference: str, number: str) -> None:
    with transaction.atomic():
        ctx.fence()
        found = states.lock(UUID(reference))
        if found is not None and found.phase == Phase.IN_DOUBT:  # nobody has decided in between
            checking.saved(found, number, row.type, "seen in an export")


def _fail(ctx: jobs.Context, row: Operation, record: SyncRun, code: str) -> None:
    with transaction.atomic():
        ctx.fence()
        record.outcome, record.error_code, record.ended_at = Outcome.FAILED, code, timezone.now()
        record.save()
        row.error_code = code
        row.save(update_fields=["error_code"])


def _count(record: SyncRun, found: Result) -> None:
    """Add what an attempt has done to what earlier ones did."""
    record.new += found.new
    record.updated += found.updated
    record.deleted += found.deleted


def _finish(
    ctx: jobs.Context, row: Operation, record: SyncRun, found: Result
) -> dict[str, Any]:  # fmt: skip
    now = timezone.now()
    record.outcome = Outcome.HELD if found.held else Outcome.DONE
    record.processed, record.rejected_count = found.processed, found.rejected_count
    record.held = found.held
    _count(record, found)
    record.rejected = [[number, list(columns)] for number, columns in found.rejected]
    record.error_code, record.ended_at = "", now
    result = {
        "processed": record.processed, "new": record.new, "updated": record.updated,
        "deleted": record.deleted, "rejected": record.rejected_count, "held": len(found.held),
    }  # fmt: skip
    with transaction.atomic():
        ctx.fence()
        SyncRun.objects.filter(
            agent=row.agent, type=row.type, outcome=Outcome.HELD
        ).exclude(pk=row.pk).update(outcome=Outcome.REPLACED)  # fmt: skip
        record.save()
        SyncState.objects.update_or_create(
            agent=row.agent, type=row.type,
            defaults={"succeeded_at": now, "failures": 0, "paused_until": None},
        )  # fmt: skip
        return running.complete(ctx, row, result)
