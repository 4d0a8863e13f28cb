"""The handlers of the stages, the end callback, and the sweeper."""

from __future__ import annotations

import hashlib
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

import jobs
from fileproc import (
    chunking,
    config,
    embedding,
    extraction,
    flow,
    metrics,
    ocr,
    stages,
    states,
    storing,
    upkeep,
    vectors,
)
from fileproc.errors import FileError
from fileproc.languages import CONFIGURATIONS
from fileproc.models import (
    Batch,
    CachedVector,
    Chunk,
    Content,
    File,
    FileStatus,
    Stage,
    StageRun,
)
from fileproc.payloads import (
    KINDS,
    BatchCompleted,
    BatchProgress,
    CancelRest,
    Chunking,
    Embed,
    Erase,
    Extract,
    RetryAll,
    Tend,
)
from fileproc.signals import batch_completed
from jobs import events
from jobs.effects import CircuitOpen
from jobs.retention import Keep, sweeper

_SETTINGS = config.settings()
LEAST_EMBED, PER_CHUNK = _SETTINGS.TIMEOUTS["embed"], 0.1
"""Seconds that an attempt may embed, in all or for each chunk: whichever is longer."""


def _options(stage: str, timeout: float) -> dict[str, Any]:
    rate = _SETTINGS.RATES[stage]
    return {
        "queue": f"file-{stage}", "max_attempts": _SETTINGS.ATTEMPTS[stage],
        "backoff": jobs.Exponential(_SETTINGS.BACKOFF[stage], jitter="none"), "timeout": timeout,
        "concurrency": _SETTINGS.CONCURRENCY[stage], "rate": rate,
        "burst": int(rate.partition("/")[0]), "replayable": False, "internal": True,
        "keep_completed": 100, "keep_failed": 500,
        "dead_letter_retention": Keep(timedelta(days=90)),
    }  # fmt: skip


@jobs.handler(
    Extract,
    **_options("extract", _SETTINGS.TIMEOUTS["extract"]),
    per_key=jobs.Limit(at_once=_SETTINGS.OWNER_EXTRACTS),
)
def extract(ctx: jobs.Context, payload: Extract) -> str:
    """Read the text of a file, or take over that of an equal one."""
    file = stages.begin(ctx, payload.file_id, Stage.EXTRACT)
    if file is None:
        return "nothing to do"
    if stages.was_read(file):
        content = stages.claim(ctx, file, file.sha256)
        if content is None or content.text:
            return _reuse(ctx, file, content)
    try:
        with extraction.copy(file) as copied:
            content = stages.claim(ctx, file, copied.sha256)
            if content is None or content.text:
                return _reuse(ctx, file, content)
            ctx.checkpoint()
            found = extraction.read(ctx, copied.path, file.name, recognition(file.batch))
    except FileError as error:
        raise stages.surrender(ctx, error, release=file) from None
    except (storing.Unavailable, CircuitOpen) as error:
        raise stages.wait_for(ctx, storing.breaker, "STORE_UNAVAILABLE", error) from None

    def write() -> dict[str, Any]:
        Content.objects.filter(pk=content.pk).update(
            type=found.type, text=found.text, pages=found.pages, headings=found.headings,
            is_table=found.is_table, warnings=found.warnings,
        )  # fmt: skip
        return {"type": found.type, "warnings": found.warnings, "isolation": found.isolation}

    stages.finish(ctx, file, write, [FileStatus.CHUNKING])
    return found.type


def recognition(batch: Batch) -> dict[str, str]:
    """Return how the text of pictures in a batch is recognised; nothing where it is not."""
    return ocr.arguments(batch.language) if batch.with_ocr and ocr.is_installed() else {}


def _reuse(ctx: jobs.Context, file: File, content: Content | None) -> str:
    """Go on with the text that an equal file, or an earlier attempt, has left."""
    if content is None:
        return "equal to another file"
    fields = {"type": content.type, "warnings": content.warnings}
    stages.finish(ctx, file, lambda: fields, [FileStatus.CHUNKING])
    return f"{content.type}, read before"


@jobs.handler(Chunking, **_options("chunk", _SETTINGS.TIMEOUTS["chunk"]))
def chunk(ctx: jobs.Context, payload: Chunking) -> str:
    """Cut the text of a file into chunks."""
    file = stages.begin(ctx, payload.file_id, Stage.CHUNK)
    content = None if file is None else _content(ctx, file)
    if file is None or content is None:
        return "nothing to do"
    if count := content.chunks.count():
        stages.finish(ctx, file, lambda: {"chunk_count": count}, [FileStatus.EMBEDDING])
        return f"{count} chunks, cut before"
    batch = file.batch
    size, overlap = embedding.chunk_size(batch.chunk_tokens, batch.chunk_overlap)
    try:
        pieces = chunking.chunk(
            content.text, size=size, overlap=overlap, count=embedding.tokenizer().count,
            pages=content.pages, headings=content.headings, is_table=content.is_table,
        )  # fmt: skip
        if not pieces:
            raise FileError("NO_TEXT")
    except FileError as error:
        raise stages.surrender(ctx, error, release=file) from None
    rows = [
        Chunk(
            content=content, number=number, text=one.text, start=one.start, end=one.end,
            first_page=one.pages and one.pages[0], last_page=one.pages and one.pages[1],
            headings=list(one.headings), tokens=one.tokens,
            sha256=hashlib.sha256(one.text.encode()).hexdigest(),
            language=CONFIGURATIONS[batch.language],
        )
        for number, one in enumerate(pieces)
    ]  # fmt: skip

    def write() -> dict[str, Any]:
        Chunk.objects.bulk_create(rows, batch_size=500)
        return {"chunk_count": len(rows)}

    stages.finish(ctx, file, write, [FileStatus.EMBEDDING])
    return f"{len(rows)} chunks"


@jobs.handler(
    Embed,
    **_options("embed", 60 + max(LEAST_EMBED, config.CHUNKS_LIMIT * PER_CHUNK)),
    per_key=jobs.Limit(at_once=_SETTINGS.OWNER_EMBEDS),
)
def embed(ctx: jobs.Context, payload: Embed) -> str:
    """Embed the chunks of a file and make it ready, in one transaction."""
    file = stages.begin(ctx, payload.file_id, Stage.EMBED)
    content = None if file is None else _content(ctx, file)
    if file is None or content is None:
        return "nothing to do"
    model = embedding.current()
    chunks = list(content.chunks.order_by("number").values_list("pk", "sha256", "text"))
    if not chunks:
        raise stages.surrender(ctx, FileError("INTERNAL_ERROR"), release=file)
    found: dict[str, bytes] = {}
    if model:
        try:
            found = _vectors(ctx, file.owner, model, {sha: text for _, sha, text in chunks})
        except (embedding.Unavailable, CircuitOpen) as error:
            code = "EMBEDDER_UNAVAILABLE"
            raise stages.wait_for(ctx, embedding.breaker, code, error) from None
        except FileError as error:
            raise stages.surrender(ctx, error) from None

    def write() -> dict[str, Any]:
        if model:
            vectors.write(model, file.owner, [(pk, found[sha]) for pk, sha, _ in chunks])
        name = model.name if model else ""
        Content.objects.filter(pk=content.pk).update(is_ready=True, holder=None, model=name)
        return {"ended_at": timezone.now()}

    stages.finish(ctx, file, write, [FileStatus.READY])
    return f"{len(chunks)} chunks"


def _content(ctx: jobs.Context, file: File) -> Content | None:
    """Return the content of a file at a later stage, unless an equal file has made it ready."""
    return stages.claim(ctx, file, file.sha256)


def _vectors(
    ctx: jobs.Context, owner: str, model: embedding.Model, texts: dict[str, str]
) -> dict[str, bytes]:
    """Return the vectors of texts by their checksums; new ones are kept as they come."""
    if not vectors.exists(model):
        raise embedding.Unavailable(
            f"there is no table {model.table}: run manage.py fileproc check"
        )
    kept = CachedVector.objects.filter(owner=owner, model=model.name, sha256__in=list(texts))
    found = {sha: bytes(vector) for sha, vector in kept.values_list("sha256", "vector")}
    missing = [sha for sha in texts if sha not in found]
    end = time.monotonic() + max(LEAST_EMBED, PER_CHUNK * len(texts))
    for start in range(0, len(missing), model.at_a_time):
        ctx.checkpoint()
        if time.monotonic() > end:
            raise FileError("TIMEOUT")
        some = missing[start : start + model.at_a_time]
        made = embedding.breaker.call(embedding.embed, [texts[sha] for sha in some])
        CachedVector.objects.bulk_create(
            [CachedVector(owner=owner, model=model.name, sha256=sha, vector=vector)
             for sha, vector in zip(some, made, strict=True)],
            ignore_conflicts=True,
        )  # fmt: skip
        found.update(zip(some, made, strict=True))
    return found


def close(ended: jobs.types.Ended) -> None:
    """Fail the file of a job that ended without success, in a transaction of the dispatcher."""
    run = StageRun.objects.select_related("file").filter(job_id=ended.id).first()
    if run is None:
        return
    file = states.lock(run.file.batch_id, run.file_id)
    if jobs.Job.objects.exclude(state=ended.state).filter(pk=ended.id).exists():
        return  # somebody has retried it meanwhile
    code = _code(ended, run)
    StageRun.objects.filter(pk=run.pk).update(
        outcome="failed", error_code=code, ended_at=timezone.now()
    )
    if file is not None and file.status in states.PROCESSING:
        states.fail(file, code, by="jobs")
    if ended.state != jobs.JobState.FAILED:
        jobs.enqueue(CancelRest(file_ids=[run.file_id]), tenant=ended.tenant)


_REASONS = {"timeout": "TIMEOUT", "crashed": "CRASHED", "lost": "CRASHED", "crash_loop": "CRASHED"}


def _code(ended: jobs.types.Ended, run: StageRun) -> str:
    if ended.state != jobs.JobState.FAILED:
        return "CANCELLED"
    return _REASONS.get(ended.reason) or run.error_code or "INTERNAL_ERROR"


for _payload in (Extract, Chunking, Embed):
    jobs.ended(_payload)(close)


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
        told: dict[str, Any] = {"batchId": str(batch.pk), "total": batch.file_count}
        for state in (*states.PROCESSING, *states.ENDED):
            told[state.value] = getattr(batch, state.value)
        jobs.emit("batch:progress", told, key=f"batch:{batch.pk}", tenant=batch.owner)


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
    """Expire batches, restart what is stuck, and remove blobs that belong to nobody."""
    return {
        "expired": upkeep.expire_batches(), "restarted": upkeep.restart_stuck(),
        "orphans": upkeep.remove_orphans(),
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
        told = {
            "fileId": str(run.file.shown_id), "batchId": str(run.file.batch_id),
            "stage": states.STATE_OF[Stage(run.stage)].value, "retryCount": run.attempts,
        }  # fmt: skip
        key = f"batch:{run.file.batch_id}"
        jobs.emit("file:processing-stalled", told, key=key, tenant=run.file.owner)
        metrics.stalled.inc(stage=run.stage)


def _held_back(event: events.Event) -> None:
    """Report to the staff that a rate holds files back; none of them is dropped."""
    scope = str(event.payload.get("scope", event.payload.get("name", "")))
    if "fileproc." in scope or "file-" in scope:
        told = {"queue": scope, "timestamp": event.occurred_at.isoformat()}
        jobs.emit("queue:rate-limit-exceeded", told, audience="staff")


events.subscriber("jobs.job.lost")(_stalled)
events.subscriber("jobs.limit.rate_reached")(_held_back)
sweeper("documents")(upkeep.sweep)
