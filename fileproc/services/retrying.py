"""Dead letters: what failed for good, and trying it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

import jobs
from fileproc import flow, stages, states
from fileproc.errors import Refused
from fileproc.models import BatchStatus, File, FileStatus, Stage, StageRun
from fileproc.payloads import KINDS, RetryAll
from fileproc.services import batches
from jobs.models import Attempt, DeadLetter

AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Retried:
    """What became of many retries."""

    retried: int
    failed: int
    remaining: int


def letters(
    owner: str, limit: int, offset: int, *, with_stacks: bool = False
) -> list[dict[str, Any]]:
    """Return the open dead letters of an owner's files that can be retried, the newest first.

    ``with_stacks`` adds where in the code the last attempt failed, which is for the staff.
    """
    rows = DeadLetter.objects.filter(state="open", kind__in=KINDS, tenant=owner)
    # A letter opens with the end of its job, a moment before its file has failed.
    shown = StageRun.objects.filter(
        job_id=OuterRef("job_id"), file__deleted_at__isnull=True, file__status=FileStatus.FAILED
    ).exclude(file__batch__status=BatchStatus.CANCELLED, file__is_draft=False)
    rows = rows.filter(Exists(shown)).order_by("-opened_at", "-id")
    found = list(rows.values("job_id", "opened_at")[offset : offset + limit])
    job_ids = [row["job_id"] for row in found]
    runs, stacks = _runs(job_ids), _stacks(job_ids) if with_stacks else {}
    return [
        _entry(runs[row["job_id"]], row, stacks.get(row["job_id"]))
        for row in found
        if row["job_id"] in runs
    ]


def _stacks(job_ids: Sequence[UUID]) -> dict[UUID, str]:
    rows = Attempt.objects.filter(job_id__in=job_ids).order_by("number")
    return dict(rows.values_list("job_id", "traceback"))


def _runs(job_ids: Sequence[UUID]) -> dict[UUID, StageRun]:
    rows = StageRun.objects.select_related("file").filter(
        job_id__in=job_ids, file__deleted_at__isnull=True
    )  # fmt: skip
    return {run.job_id: run for run in rows}


def _entry(run: StageRun, letter: Mapping[str, Any], stack: str | None) -> dict[str, Any]:
    from fileproc.errors import message

    return {
        "fileId": run.file.shown_id, "batchId": run.file.batch_id,
        "stage": states.STATE_OF[Stage(run.stage)].value,
        "error": run.error_code, "message": message(run.error_code),
        "attempts": run.attempts, "failedAt": letter["opened_at"],
        "retriedAt": run.retried_at, "retriedBy": run.retried_by or None,
        "stack": stack or None,
    }  # fmt: skip


def retry(owner: str, file_id: UUID, *, by: str) -> File:
    """Retry a failed file, or its failed reprocessing, at the stage that failed; raise Refused."""
    with transaction.atomic():
        batch, file = batches.locked_with(owner, file_id)
        if file.status == FileStatus.READY:
            file = file.draft() or file
        if file.status != FileStatus.FAILED:
            raise Refused("STATE_CONFLICT", f"it is {file.status}")
        if not file.blob_etag:
            raise Refused("STATE_CONFLICT", "it was never uploaded")
        if batch.status == BatchStatus.CANCELLED and not file.is_draft:
            raise Refused("STATE_CONFLICT", "its batch was cancelled")
        stage = flow.resume_stage(file)
        _mark(file, by)
        stages.back_to_queue(file, stage, by=by)
        flow.again(file, stage, by=by)
        file.refresh_from_db()
    return file


def _mark(file: File, by: str) -> None:
    last = file.runs.filter(outcome="failed").order_by("-id").first()
    if last is not None:
        StageRun.objects.filter(pk=last.pk).update(retried_at=timezone.now(), retried_by=by[:200])


def retry_all(owner: str, *, by: str) -> Retried:
    """Retry the failed files of an owner, at most a hundred at once."""
    rows = File.objects.live().filter(owner=owner, status=FileStatus.FAILED)
    rows = rows.exclude(blob_etag="").exclude(batch__status=BatchStatus.CANCELLED, is_draft=False)
    done = failed = 0
    for file in list(rows.order_by("ended_at", "pk")[:AT_ONCE]):
        try:
            retry(owner, file.shown_id, by=by)
            done += 1
        except (Refused, jobs.JobsError):
            failed += 1
    return Retried(done, failed, rows.count())


def retry_rest(owner: str, *, by: str) -> None:
    """Let a job retry everything that is left."""
    jobs.enqueue(RetryAll(owner=owner, by=by[:200]), tenant=owner)
