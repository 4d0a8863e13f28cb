"""The jobs of files: one after another, each resumed where it failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

import jobs
from fileproc.models import Chunk, File, Stage, StageRun
from fileproc.payloads import STAGES
from jobs.models import Job

ORDER = (Stage.EXTRACT, Stage.CHUNK, Stage.EMBED)
UNFINISHED = ("blocked", "pending", "queued", "running")


def enqueue(files: Iterable[File], first: Stage = Stage.EXTRACT) -> None:
    """Enqueue the stages of files from the first one on, each after the one before it.

    A stage waits for a failed one before it, so that a retry of that frees the rest.
    """
    drafts, runs = [], []
    for file in files:
        before: list[Any] = []
        for stage in ORDER[ORDER.index(first) :]:
            job_id = uuid4()
            payload = STAGES[stage].model_validate({"file_id": file.pk})
            drafts.append(
                jobs.Draft(
                    payload, job_id=job_id, tenant=file.owner, after=list(before),
                    on_parent_failure="wait", limit_key="" if stage == Stage.CHUNK else file.owner,
                    correlation_id=str(file.batch_id),
                )
            )  # fmt: skip
            runs.append(StageRun(file=file, stage=stage, job_id=job_id))
            before = [job_id]
    StageRun.objects.bulk_create(runs)
    jobs.enqueue_many(drafts)


def resume_stage(file: File) -> Stage:
    """Return the stage at which a failed file goes on: the failed one, if its inputs exist."""
    from fileproc.states import STAGE_OF

    wanted = next((s for s in STAGE_OF if s == file.error_stage), None)
    stage = STAGE_OF[wanted] if wanted is not None else Stage.EXTRACT
    has_text = file.content is not None and file.content.text != ""
    if stage == Stage.EMBED and not Chunk.objects.filter(content=file.content_id).exists():
        stage = Stage.CHUNK
    return stage if has_text or stage == Stage.EXTRACT else Stage.EXTRACT


def again(file: File, stage: Stage, *, by: str) -> None:
    """Run a stage of a failed file again, with those after it.

    The failed job is retried where it is still there and its successors wait for it. Otherwise
    the file gets new jobs, and what is left of the old ones is cancelled.
    """
    run = file.runs.filter(stage=stage).order_by("-id").first()
    if run is not None and _can_retry(file, run):
        jobs.retry(run.job_id, by=by, reset=True)
        StageRun.objects.filter(pk=run.pk).update(outcome="", ended_at=None)
        return
    cancel([file], by=by)
    enqueue([file], stage)


def _can_retry(file: File, run: StageRun) -> bool:
    states = dict(
        Job.objects.filter(pk__in=file.runs.filter(pk__gte=run.pk).values("job_id"))
        .values_list("pk", "state")
    )  # fmt: skip
    mine = states.pop(run.job_id, "")
    wanted = len(ORDER) - 1 - ORDER.index(Stage(run.stage))
    return mine == "failed" and len(states) == wanted and set(states.values()) <= {"blocked"}


def cancel(files: Sequence[File], *, by: str) -> int:
    """Cancel the jobs of the files that have not ended; return how many there were.

    A job whose stage is done ends by itself.
    To be called without a lock on the files: a worker that holds a job may wait for them.
    """
    ids = StageRun.objects.filter(file__in=files).exclude(outcome="done").values("job_id")
    found = list(
        Job.objects.filter(pk__in=ids, state__in=UNFINISHED).order_by("-created_at", "-pk")
        .values_list("pk", flat=True)
    )  # fmt: skip
    for job_id in found:
        try:
            jobs.cancel(job_id, by=by, reason="its file is gone or was cancelled")
        except (jobs.errors.NotAllowed, jobs.errors.UnknownJob):
            continue  # it has ended meanwhile
    return len(found)
