"""The handlers of the stages, and what becomes of a file whose job has ended without success."""

from __future__ import annotations

import hashlib
import time
from datetime import timedelta
from typing import Any

from django.utils import timezone

import jobs
from fileproc import chores as chores
from fileproc import (
    chunking,
    config,
    embedding,
    extraction,
    indexing,
    ocr,
    stages,
    states,
    storing,
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
    CancelRest,
    Chunking,
    Embed,
    Extract,
)
from jobs.effects import CircuitOpen
from jobs.retention import Keep

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
    model, index = embedding.current(), indexing.current()
    chunks = list(content.chunks.order_by("number").values_list("pk", "number", "sha256", "text"))
    if not chunks:
        raise stages.surrender(ctx, FileError("INTERNAL_ERROR"), release=file)
    rows: indexing.Rows = []
    key = ""
    if model:
        try:
            found = _vectors(ctx, file.owner, model, {sha: text for _, _, sha, text in chunks})
        except (embedding.Unavailable, CircuitOpen) as error:
            code = "EMBEDDER_UNAVAILABLE"
            raise stages.wait_for(ctx, embedding.breaker, code, error) from None
        except FileError as error:
            raise stages.surrender(ctx, error) from None
        rows = [(pk, number, found[sha]) for pk, number, sha, _ in chunks]
        try:
            key = index.send(ctx, file, content, model, rows)
        except (indexing.Unavailable, CircuitOpen) as error:
            code = "INDEX_UNAVAILABLE"
            raise stages.wait_for(ctx, indexing.breaker, code, error) from None
        except FileError as error:
            raise stages.surrender(ctx, error) from None

    def write() -> dict[str, Any]:
        if model:
            index.write(model, file.owner, rows)
        if content.index_key and not key:
            indexing.forget(content)
        name = model.name if model else ""
        Content.objects.filter(pk=content.pk).update(
            is_ready=True, holder=None, model=name, index_key=key
        )
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
    if not indexing.current().exists(model):
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
