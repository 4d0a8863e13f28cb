"""What surrounds the work of every stage: taking it over, finishing it, noting its failure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

import jobs
from fileproc import config, metrics, pipeline_version, states
from fileproc.errors import PERMANENT, FileError, message
from fileproc.models import BatchStatus, Content, File, FileStatus, Stage, StageRun
from jobs.effects import CircuitOpen

WAIT, LONGEST_WAIT = 1.0, 15.0
"""Seconds after which a file asks again whether an equal one is ready: at first, and at last."""
PATIENCE = timedelta(hours=24)
"""How long a file waits for a model or a store that is not available."""


def begin(ctx: jobs.Context, file_id: UUID, stage: Stage) -> File | None:
    """Take over a stage of a file; return None where there is nothing to do any more.

    Refuses jobs that are not the file's own. A file that failed, and whose job somebody has
    retried, walks back through the queue.
    """
    with transaction.atomic():
        ctx.fence()
        run = StageRun.objects.select_related("file").filter(job_id=ctx.job_id).first()
        if run is not None and run.stage == stage and run.outcome == "done":
            return None
        if run is None or run.file_id != file_id or run.stage != stage:
            raise jobs.Unrecoverable("this job belongs to no stage of that file")
        if run.file.owner != ctx.tenant:
            raise jobs.Unrecoverable("this job belongs to another tenant")
        file = states.lock(run.file.batch_id, file_id)
        if file is None or (file.batch.status == BatchStatus.CANCELLED and not file.is_draft):
            return None
        wanted = states.STATE_OF[stage]
        if file.status == FileStatus.FAILED:
            back_to_queue(file, stage, by=f"job {ctx.job_id}")
        if file.status == FileStatus.QUEUED and (file.resume_stage or Stage.EXTRACT) == stage:
            states.files.move(file, wanted, by="worker", resume_stage="")
        elif file.status != wanted:
            if _is_past(file.status, wanted):
                _end(run.pk, "done")
                return None
            raise jobs.Snooze(WAIT)
        StageRun.objects.filter(pk=run.pk).update(
            attempts=ctx.failures + 1, started_at=run.started_at or timezone.now(), outcome="",
            ended_at=None,
        )  # fmt: skip
    return file


def back_to_queue(file: File, stage: Stage, *, by: str) -> None:
    """Queue a failed and locked file again, to be resumed at the stage."""
    states.files.move(
        file, FileStatus.QUEUED, by=by, resume_stage=stage, error_code="", error_stage="",
        ended_at=None,
    )  # fmt: skip


def _is_past(status: str, wanted: FileStatus) -> bool:
    way = [*states.STATE_OF.values(), FileStatus.READY]
    return status in way and way.index(FileStatus(status)) > way.index(wanted)


def finish(
    ctx: jobs.Context, file: File, write: Callable[[], dict[str, Any]], path: list[FileStatus]
) -> bool:
    """Write the output of a stage and move the file along the path, in one transaction.

    ``write`` returns the columns of the file that change with the move. Nothing is written if the
    file was deleted or has failed meanwhile.
    """
    with transaction.atomic():
        ctx.fence()
        fresh = states.lock(file.batch_id, file.pk)
        if fresh is None or fresh.status != file.status:
            return False
        fields = write()
        _walk(fresh, path, **fields)
        run = StageRun.objects.get(job_id=ctx.job_id)
        _end(run.pk, "done")
        transaction.on_commit(lambda: _count(ctx, run.stage, "done"))
    return True


def _walk(file: File, path: list[FileStatus], **fields: Any) -> None:
    """Move a locked file along the path; at its end, it takes the place of the one it replaces."""
    from fileproc import generations

    states.files.walk(file, path, by="worker", **fields)
    if path[-1] == FileStatus.READY and file.replaces is not None:
        generations.take_over(file, file.replaces)


def claim(ctx: jobs.Context, file: File, sha256: str) -> Content | None:
    """Return the content that the file is to be processed for; None if an equal one was ready.

    Equal bytes of an owner are processed once: while another file is at it, this one waits, and
    takes over if an attempt of that fails, or if it is deleted. The first stage chooses the content
    by the pipeline's version of that moment, and later ones keep to it.
    """
    with transaction.atomic():
        ctx.fence()
        fresh = states.lock(file.batch_id, file.pk)
        if fresh is None or fresh.status != file.status:
            return None
        content = _content(fresh, sha256)
        if content.is_ready:
            share(fresh, content)
            return None
        has_turn = content.holder in (None, file.pk) or not _is_at_work(content.holder)
        if has_turn:
            Content.objects.filter(pk=content.pk).update(holder=file.pk)
        # Kept while it waits, too: the bytes need not be read again to see whose turn it is.
        File.objects.filter(pk=file.pk).update(content=content, sha256=sha256)
        file.content, file.sha256 = content, sha256
    if not has_turn:
        raise jobs.Snooze(_wait(ctx))
    return content


def _wait(ctx: jobs.Context) -> float:
    """Return after how many seconds a file asks again, which it does less and less often."""
    asked = ctx.attempt - ctx.failures - 1
    return min(WAIT * 1.5 ** min(asked, 10), LONGEST_WAIT)


def was_read(file: File) -> bool:
    """Return whether the bytes of the file were read before, so that their checksum is ours."""
    return file.content_id is not None and file.sha256 != ""


def share(file: File, content: Content) -> None:
    """Make a locked file ready with what an equal one has produced."""
    way = [FileStatus.EXTRACTING, FileStatus.CHUNKING, FileStatus.EMBEDDING, FileStatus.READY]
    _walk(
        file, way[way.index(FileStatus(file.status)) + 1 :], content=content,
        sha256=content.sha256, type=content.type, warnings=content.warnings,
        chunk_count=content.chunks.count(), ended_at=timezone.now(),
    )  # fmt: skip


def _content(file: File, sha256: str) -> Content:
    chosen = Content.objects.select_for_update(of=("self",)).filter(files=file)
    if file.status != FileStatus.EXTRACTING:
        return chosen.get()
    version = pipeline_version.of(file.batch)
    found = chosen.filter(sha256=sha256, pipeline=version).first()
    return found or content_of(file.owner, sha256, version)


def content_of(owner: str, sha256: str, version: str) -> Content:
    """Return the content that files with these bytes share, locked; make it if there is none."""
    key: dict[str, Any] = {"owner": owner, "sha256": sha256, "pipeline": version, "edition": ""}
    while True:
        try:
            with transaction.atomic():
                Content.objects.get_or_create(**key)
        except IntegrityError:
            pass  # another file was faster
        content = Content.objects.select_for_update().filter(**key).first()
        if content is not None:  # else another edition has just taken its place
            return content


def _is_at_work(file_id: UUID | None) -> bool:
    rows = File.objects.live().filter(status__in=states.PROCESSING)
    return file_id is not None and rows.filter(pk=file_id).exists()


def _count(ctx: jobs.Context, stage: str, result: str) -> None:
    number = str(ctx.failures + 1) if ctx.failures < 2 else "later"
    metrics.attempts.inc(stage=stage, attempt=number, result=result)


def _end(run_id: int, outcome: str, code: str = "") -> None:
    StageRun.objects.filter(pk=run_id).update(
        outcome=outcome, error_code=code, ended_at=timezone.now()
    )


def note(ctx: jobs.Context, code: str) -> None:
    """Write down why an attempt failed, for the case that it was the last one."""
    with transaction.atomic():
        ctx.fence()
        StageRun.objects.filter(job_id=ctx.job_id).update(error_code=code)


def surrender(ctx: jobs.Context, error: FileError, release: File | None = None) -> Exception:
    """Note a fault of the file; return what the handler raises, as often as the settings say.

    ``release`` is a file whose next attempt reads all of its input again: meanwhile an equal one
    may have its turn, so that equal broken files do not fail one after another.
    """
    note(ctx, error.code)
    _count(ctx, StageRun.objects.get(job_id=ctx.job_id).stage, "failed")
    if release is not None and release.content_id is not None:
        Content.objects.filter(pk=release.content_id, holder=release.pk).update(holder=None)
    tries = config.settings().PERMANENT_ATTEMPTS
    if error.code in PERMANENT and ctx.failures + 1 >= tries:
        return jobs.Unrecoverable(str(error))
    return error


class Guard(Protocol):
    """A circuit breaker, as far as those who wait for it need it."""

    name: str
    open_for: Any

    def raise_if_open(self) -> None: ...


def wait_for(ctx: jobs.Context, breaker: Guard, code: str, error: Exception) -> Exception:
    """Return what the handler raises while what the breaker guards is away: it waits, for a day."""
    run = StageRun.objects.get(job_id=ctx.job_id)
    if run.started_at is not None and timezone.now() - run.started_at > PATIENCE:
        note(ctx, code)
        return jobs.Unrecoverable(message(code))
    if isinstance(error, CircuitOpen):
        return error
    ctx.log.error("%s is not available: %s", breaker.name, error)
    try:
        breaker.raise_if_open()
    except CircuitOpen as circuit:
        return circuit
    return jobs.Snooze(breaker.open_for)
