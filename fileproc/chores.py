"""The handlers of what is not a stage: reports, removals, retries of many files, the clean-up."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction

import jobs
from fileproc import config, embedding, flow, indexing, metrics, states, upkeep
from fileproc.models import Batch, File, FileStatus, Stage, StageRun
from fileproc.payloads import (
    KINDS,
    BatchCompleted,
    BatchProgress,
    CancelRest,
    Erase,
    RetryAll,
    Tend,
    Unindex,
)
from fileproc.signals import batch_completed
from jobs import events
from jobs.retention import sweeper


@jobs.handler(
    BatchProgress, queue="batch-completion", internal=True, replayable=False, concurrency=2,
    keep_completed=100,
)  # fmt: skip
def tell_progress(ctx: jobs.Context, payload: BatchProgress) -> None:
    """Tell how far a batch is; at most twice a second for each."""
    with transaction.atomic():
        ctx.fence()
        batch = Batch.objects.select_for_update(no_key=True).filter(pk=payload.batch_id).first()
        if batch is None:
            return
        Batch.objects.filter(pk=batch.pk).update(is_progress_due=False)
        message: dict[str, Any] = {"batchId": str(batch.pk), "total": batch.file_count}
        for state in (*states.PROCESSING, *states.ENDED):
            message[state.value] = getattr(batch, state.value)
        jobs.emit("batch:progress", message, key=f"batch:{batch.pk}", tenant=batch.owner)


@jobs.handler(
    BatchCompleted, queue="batch-completion", internal=True, replayable=False, keep_completed=100
)
def tell_completed(ctx: jobs.Context, payload: BatchCompleted) -> None:
    """Tell the project's own code that a batch is complete."""
    batch_completed.send(sender=Batch, batch_id=payload.batch_id, revision=payload.revision)


@jobs.handler(
    CancelRest, queue="batch-completion", internal=True, replayable=False, keep_completed=100
)
def cancel_rest(ctx: jobs.Context, payload: CancelRest) -> int:
    """Cancel what is left of the jobs of cancelled files."""
    files = list(File.objects.filter(pk__in=payload.file_ids, status=FileStatus.FAILED))
    return flow.cancel(files, by="fileproc")


@jobs.handler(Erase, queue="batch-completion", internal=True, replayable=False, keep_completed=100)
def erase(ctx: jobs.Context, payload: Erase) -> None:
    """Remove everything of a deleted file."""
    file = File.objects.filter(pk=payload.file_id, deleted_at__isnull=False).first()
    if file is not None:
        flow.cancel([file], by="fileproc")
        upkeep.erase(file)


@jobs.handler(
    Unindex, queue="batch-completion", internal=True, replayable=False, keep_completed=100,
    timeout=300, max_attempts=12, backoff=jobs.Exponential(30),
)  # fmt: skip
def unindex(ctx: jobs.Context, payload: Unindex) -> int:
    """Delete the documents of a content from the index of another host; wait while it is away."""
    from fileproc.indexing import azure

    if not config.settings().INDEX_URL:
        ctx.log.warning("INDEX_URL is not set any more: %s documents stay there", payload.count)
        return 0
    model = embedding.named(payload.model)
    indexing.breaker.call(azure.delete, model, payload.key, payload.count)
    return payload.count


@jobs.handler(RetryAll, queue="dead-letter-queue", internal=True, replayable=False, concurrency=1,
              timeout=600)  # fmt: skip
def retry_all(ctx: jobs.Context, payload: RetryAll) -> int:
    """Retry every failed file of an owner."""
    from fileproc.services import retrying

    done = 0
    while True:
        ctx.checkpoint()
        some = retrying.retry_all(payload.owner, by=payload.by)
        done += some.retried
        if not some.retried:
            return done


@jobs.handler(Tend, queue="batch-completion", internal=True, replayable=False, keep_completed=10,
              timeout=300)  # fmt: skip
def tend(ctx: jobs.Context, payload: Tend) -> dict[str, int]:
    """Expire batches, restart what is stuck, and remove blobs that nobody needs."""
    return {
        "expired": upkeep.expire_batches(), "restarted": upkeep.restart_stuck(),
        "cancelled": upkeep.cancel_closed(),
        "let_go": upkeep.let_go(), "orphans": upkeep.remove_orphans(),
    }  # fmt: skip


jobs.schedule("fileproc-tend", Tend(), interval=60, overlap="skip")


def _stalled(event: events.Event) -> None:
    """Report to the owner that a worker was lost, and that the stage will be tried again."""
    if event.payload.get("kind") not in KINDS:
        return
    run = StageRun.objects.select_related("file").filter(
        job_id=UUID(event.key.removeprefix("job:"))
    ).first()  # fmt: skip
    if run is not None:
        message = {
            "fileId": str(run.file.shown_id), "batchId": str(run.file.batch_id),
            "stage": states.STATE_OF[Stage(run.stage)].value, "retryCount": run.attempts,
        }  # fmt: skip
        key = f"batch:{run.file.batch_id}"
        jobs.emit("file:processing-stalled", message, key=key, tenant=run.file.owner)
        metrics.stalled.inc(stage=run.stage)


def _held_back(event: events.Event) -> None:
    """Report to the staff that a rate holds files back; none of them is dropped."""
    scope = str(event.payload.get("scope", event.payload.get("name", "")))
    if "fileproc." in scope or "file-" in scope:
        message = {"queue": scope, "timestamp": event.occurred_at.isoformat()}
        jobs.emit("queue:rate-limit-exceeded", message, audience="staff")


events.subscriber("jobs.job.lost")(_stalled)
events.subscriber("jobs.limit.rate_reached")(_held_back)
sweeper("documents")(upkeep.sweep)
