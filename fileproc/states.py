"""The state machine of files, and what follows from each move: counters and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

import jobs
from fileproc import metrics
from fileproc.clock import Now
from fileproc.models import Batch, BatchStatus, File, FileStatus, Stage
from fileproc.payloads import BatchCompleted, BatchProgress
from jobs import events
from jobs.machines import Edge, Moved, machine

PROCESSING = (FileStatus.QUEUED, FileStatus.EXTRACTING, FileStatus.CHUNKING, FileStatus.EMBEDDING)
OPEN = (FileStatus.REGISTERED, FileStatus.UPLOADED, *PROCESSING)
ENDED = (FileStatus.READY, FileStatus.FAILED)
STATE_OF = {
    Stage.EXTRACT: FileStatus.EXTRACTING,
    Stage.CHUNK: FileStatus.CHUNKING,
    Stage.EMBED: FileStatus.EMBEDDING,
}
STAGE_OF = {state: stage for stage, state in STATE_OF.items()}
PROGRESS_DELAY = 0.5
"""Seconds between two reports of a batch's progress, and how old the last one may be."""


def _record(moves: Sequence[Moved]) -> None:
    """Count the moves in their batches and publish them, in the same transaction."""
    known: dict[Any, Any] = {m.pk: m.instance for m in moves if m.instance is not None}
    missing = [m.pk for m in moves if m.pk not in known]
    known |= File.objects.only("id", "batch_id", "owner", "is_draft", "replaces").in_bulk(missing)
    File.objects.filter(pk__in=known).update(moved_at=Now())
    events.emit_many(_draft_failed(m, known[m.pk]) for m in moves
                     if known[m.pk].is_draft and m.to == FileStatus.FAILED)  # fmt: skip
    moves = [moved for moved in moves if not known[moved.pk].is_draft]
    events.emit_many(_message(moved, known[moved.pk]) for moved in moves)
    changes: dict[UUID, Counter[str]] = {}
    for moved in moves:
        counter = changes.setdefault(known[moved.pk].batch_id, Counter())
        counter[moved.source] -= 1
        counter[moved.to] += 1
    for batch_id in sorted(changes):
        recount(batch_id, changes[batch_id])
    ended = [moved for moved in moves if moved.to in ENDED]
    transaction.on_commit(lambda: _measure(ended, known))


def _measure(ended: Sequence[Moved], known: dict[Any, Any]) -> None:
    for moved in ended:
        error = str(moved.fields.get("error_code", ""))
        metrics.processed.inc(result=moved.to, error=error)
        confirmed = getattr(known[moved.pk], "confirmed_at", None)
        if moved.to == FileStatus.READY and confirmed is not None:
            metrics.latency.observe((timezone.now() - confirmed).total_seconds())


def _message(moved: Moved, file: File) -> Any:
    payload = {"fileId": str(moved.pk), "from": moved.source, "to": moved.to,
            "batchId": str(file.batch_id)}  # fmt: skip
    if code := moved.fields.get("error_code"):
        payload["error"] = code
    if (count := moved.fields.get("chunk_count")) is not None:
        payload["chunkCount"] = count
    return events.message(
        "file:status-changed", payload, key=f"batch:{file.batch_id}", tenant=file.owner
    )


def _draft_failed(moved: Moved, file: File) -> Any:
    payload = {"fileId": str(file.replaces), "batchId": str(file.batch_id),
            "error": moved.fields["error_code"]}  # fmt: skip
    key = f"batch:{file.batch_id}"
    return events.message("file:reprocessed", payload, key=key, tenant=file.owner)


def recount(batch_id: UUID, change: Counter[str], total: int = 0) -> None:
    """Add to the counters of a batch; complete or reopen it, and publish its progress soon.

    The caller has locked the batch.
    """
    sums = {name: F(name) + n for name, n in change.items() if n}
    Batch.objects.filter(pk=batch_id).update(**sums, file_count=F("file_count") + total)
    batch = Batch.objects.get(pk=batch_id)
    is_done = batch.processed_count >= batch.file_count
    if batch.status == BatchStatus.ACTIVE and is_done:
        batch.status, batch.completed_at = BatchStatus.COMPLETED, timezone.now()
        batch.save(update_fields=["status", "completed_at"])
        _tell_completed(batch)
    elif batch.status == BatchStatus.COMPLETED and not is_done:
        batch.status, batch.completed_at = BatchStatus.ACTIVE, None
        batch.revision += 1
        batch.save(update_fields=["status", "completed_at", "revision"])
    if not batch.is_progress_due:
        Batch.objects.filter(pk=batch_id).update(is_progress_due=True)
        jobs.enqueue(
            BatchProgress(batch_id=batch_id), tenant=batch.owner, delay=PROGRESS_DELAY, priority=50
        )


def summary(batch: Batch) -> dict[str, int]:
    """Return the three numbers of a batch that the contract fixes."""
    return {"total": batch.file_count, "ready": batch.ready, "failed": batch.failed}


def _tell_completed(batch: Batch) -> None:
    payload = {"batchId": str(batch.pk), "revision": batch.revision, "summary": summary(batch)}
    jobs.emit("batch:completed", payload, key=f"batch:{batch.pk}", tenant=batch.owner)
    jobs.enqueue(BatchCompleted(batch_id=batch.pk, revision=batch.revision), tenant=batch.owner)


files = machine(
    File,
    "status",
    [
        Edge("upload", FileStatus.REGISTERED, FileStatus.UPLOADED, "its blob is there"),
        Edge("queue", [FileStatus.REGISTERED, FileStatus.UPLOADED], FileStatus.QUEUED,
             "its upload is confirmed"),
        Edge("retry", FileStatus.FAILED, FileStatus.QUEUED, "somebody retries it"),
        Edge("extract", FileStatus.QUEUED, FileStatus.EXTRACTING, "a worker reads it"),
        Edge("chunk", FileStatus.EXTRACTING, FileStatus.CHUNKING, "its text is there"),
        Edge("resume chunking", FileStatus.QUEUED, FileStatus.CHUNKING, "it resumes there"),
        Edge("embed", FileStatus.CHUNKING, FileStatus.EMBEDDING, "its chunks are there"),
        Edge("resume embedding", FileStatus.QUEUED, FileStatus.EMBEDDING, "it resumes there"),
        Edge("finish", FileStatus.EMBEDDING, FileStatus.READY, "it can be found"),
        Edge("fail", OPEN, FileStatus.FAILED, "it will not be tried again"),
    ],
    on_moves=_record,
)  # fmt: skip


def lock(batch_id: UUID, file_id: UUID) -> File | None:
    """Return the file, locked after its batch; None if it was deleted.

    Every transaction that changes files locks their batch first, so that none waits for another
    in a circle. A file that replaces another has two, which are locked in the order of their ids.
    """
    other = File.objects.filter(pk=file_id).values("replaces")
    batch_of_other = File.objects.filter(pk__in=other).values("batch")
    batches = Batch.objects.filter(Q(pk=batch_id) | Q(pk__in=batch_of_other))
    list(batches.order_by("pk").select_for_update(no_key=True).values_list("pk"))
    return File.objects.live().select_for_update(no_key=True).filter(pk=file_id).first()


def fail(file: File, code: str, *, by: str) -> None:
    """Fail a locked file."""
    files.move(
        file, FileStatus.FAILED, by=by, error_code=code, error_stage=file.status,
        ended_at=timezone.now(),
    )  # fmt: skip
