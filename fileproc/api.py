"""The upload API, mounted at ``/api/v2/uploads``: batches, files, dead letters, search."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any
from uuid import UUID

from django.db.models import Avg, Count, F, Q
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Field, Query, Schema, Status
from ninja.router import Router

from fileproc import config, embedding, names, schemas, states, upkeep
from fileproc.api_verbs import section
from fileproc.clock import now
from fileproc.errors import Refused
from fileproc.login import logins, owner_of
from fileproc.models import Batch, BatchStatus, Chunk, File, FileStatus
from fileproc.permissions import covers
from fileproc.problems import problem_of, with_code
from fileproc.services import batches, confirming, deleting, retrying, search
from fileproc.verbs import ADD_FILE, CHANGE_FILE, DELETE_FILE, VIEW_FILE
from jobs import blobs, sandbox
from jobs.api import add_rest, auth, build_api, operation, paging, prepared
from jobs.models import DeadLetter

BODY_LIMIT = 4_000_000
"""Bytes of a manifest of 500 files with their metadata."""
router = Router(tags=["uploads"], auth=logins())


class Owned(Schema):
    """For whom a key of several tenants asks."""

    owner: str = Field("", max_length=200)


class Part(Owned):
    """A part of a list, by offset and limit."""

    offset: int = Field(0, ge=0, le=1_000_000_000)
    limit: int = Field(50, ge=1, le=200)


def _refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def answered(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except Refused as error:
            raise problem_of(error) from None

    return answered


def _on(
    method: str, path: str, name: str, needs: str, answer: Any, before: Any = None, **how: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    step = _refusing(before) if before is not None else None

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        return operation(
            router, method, path, name, needs=needs, answer=answer, shape=with_code, before=step,
            **how,
        )(_refusing(function))  # fmt: skip

    return register


def _by(request: HttpRequest) -> str:
    return auth.who(request).name


# ---- batches


def _sign_again(request: HttpRequest, kept: Any) -> None:
    """Give the files of a repeated request new addresses, as far as they still wait for one."""
    files = {
        str(one["fileId"]): one for one in kept.get("files", [kept] if "fileId" in kept else [])
    }
    for file in batches.waiting(list(files)):
        if covers(auth.who(request), file.owner):
            upload = batches.sign(file)
            files[str(file.pk)] |= {
                "uploadUrl": upload.url, "headers": dict(upload.headers),
                "expiresAt": upload.expires_at.isoformat(),
            }  # fmt: skip


ADDRESS: dict[str, Any] = {"secret": ("uploadUrl", "headers"), "renew": _sign_again}
"""Options of operations that return an address: it is signed again for a repeated request."""


@_on("POST", "/batches", "upload_batch_create", ADD_FILE,
     {200: schemas.ManifestOut, 201: schemas.ManifestOut}, body_limit=BODY_LIMIT,
     secret=("files.uploadUrl", "files.headers"), renew=_sign_again)  # fmt: skip
def batch_create(request: HttpRequest, body: schemas.BatchIn) -> Any:
    """Begin a batch: of a number of files, or of those in a manifest."""
    owner = owner_of(request, body.owner)
    if (body.files is None) == (body.fileCount is None):
        raise Refused("INVALID_MANIFEST", "must have either fileCount or files", "files")
    if body.files is None:
        if body.folders:
            raise Refused("INVALID_MANIFEST", "go with files, not with fileCount", "folders")
        options = schemas.options_of(body)
        made = batches.create(owner, body.fileCount or 0, body.metadata, options)
        return Status(200, schemas.of_batch(made))
    batch, found, folders = batches.create_from(
        owner, [schemas.announced(one) for one in body.files],
        skip_duplicate_check=body.skipDuplicateCheck, metadata=body.metadata,
        options=schemas.options_of(body), announced_folders=schemas.folders_of(body),
    )  # fmt: skip
    answer = schemas.of_batch(Batch.objects.get(pk=batch.pk))
    files = [schemas.of_upload(one) for one in found if one.refused is None]
    refused = [schemas.of_refused(one) for one in found if one.refused is not None]
    made_folders = [{"tempId": key, "folderId": pk} for key, pk in folders.items()]
    return Status(201, {**answer, "files": files, "refused": refused, "folders": made_folders})


@_on("GET", "/batches", "upload_batch_list", VIEW_FILE, schemas.BatchPage)
def batch_list(
    request: HttpRequest, response: HttpResponse, asked: Query[Owned],
    wanted: Query[paging.PageIn], status: schemas.BatchState | None = None,
) -> Any:  # fmt: skip
    """List batches, newest first."""
    owner = owner_of(request, asked.owner)
    rows = Batch.objects.filter(owner=owner)
    if status is not None:
        rows = rows.filter(status=status)
    filters = {"owner": owner, "status": status}
    found = paging.page(request, response, rows, wanted, filters=filters)
    return {**found, "data": [schemas.of_batch(row) for row in found["data"]]}


def _batch(request: HttpRequest, batch_id: UUID, named: str) -> Batch:
    owner = owner_of(request, named)
    batch = Batch.objects.filter(pk=batch_id, owner=owner).first()
    if batch is None:
        raise Refused("BATCH_NOT_FOUND", "there is no such batch")
    return batch


@_on("GET", "/batches/{uuid:batch_id}", "upload_batch_get", VIEW_FILE, schemas.BatchOut)
def batch_get(request: HttpRequest, batch_id: UUID, asked: Query[Owned]) -> Any:
    """Tell how far a batch is."""
    return schemas.of_batch(_batch(request, batch_id, asked.owner))


@_on("POST", "/batches/{uuid:batch_id}/upload-urls", "upload_register", ADD_FILE,
     schemas.UploadOut, **ADDRESS)  # fmt: skip
def register(
    request: HttpRequest, batch_id: UUID, body: schemas.UploadIn, asked: Query[Owned]
) -> Any:
    """Announce a file of a batch, and get the address to upload it to."""
    made = batches.register(
        owner_of(request, asked.owner), batch_id,
        batches.Announced(body.fileName, body.fileSize, body.path, body.lastModified,
                          body.contentHash.lower(), body.metadata),
    )  # fmt: skip
    return schemas.of_upload(made)


def _head(
    request: HttpRequest, batch_id: UUID, file_id: UUID, body: Any, asked: Any
) -> confirming.Heads:
    return confirming.heads(owner_of(request, asked.owner), batch_id, [file_id])


@_on("POST", "/batches/{uuid:batch_id}/files/{uuid:file_id}/confirm", "upload_confirm", ADD_FILE,
     schemas.ConfirmedOut, before=_head)  # fmt: skip
def confirm(
    request: HttpRequest, batch_id: UUID, file_id: UUID, body: schemas.ConfirmIn,
    asked: Query[Owned],
) -> Any:  # fmt: skip
    """Confirm an upload, which queues the file; a second time changes nothing."""
    arrival = confirming.Arrival(file_id, body.size, body.md5)
    owner = owner_of(request, asked.owner)
    [done] = confirming.confirm(owner, batch_id, [arrival], prepared(request), by=_by(request))
    if done.refused is not None:
        raise done.refused
    return schemas.of_confirmed(done)


def _heads(request: HttpRequest, batch_id: UUID, body: Any, asked: Any) -> confirming.Heads:
    if len(body.files) > config.FILES_LIMIT:
        raise Refused("BATCH_TOO_LARGE", f"at most {config.FILES_LIMIT} files", "files")
    ids = [one.fileId for one in body.files]
    return confirming.heads(owner_of(request, asked.owner), batch_id, ids)


@_on("POST", "/batches/{uuid:batch_id}/confirm", "upload_confirm_many", ADD_FILE,
     schemas.ConfirmedMany, before=_heads)  # fmt: skip
def confirm_many(
    request: HttpRequest, batch_id: UUID, body: schemas.ConfirmManyIn, asked: Query[Owned]
) -> Any:
    """Confirm up to 500 uploads; each is judged on its own."""
    arrivals = [confirming.Arrival(one.fileId, one.size, one.md5) for one in body.files]
    owner = owner_of(request, asked.owner)
    done = confirming.confirm(owner, batch_id, arrivals, prepared(request), by=_by(request))
    refused = sum(one.refused is not None for one in done)
    return {"confirmed": len(done) - refused, "refused": refused,
            "files": [schemas.of_confirmed(one) for one in done]}  # fmt: skip


@_on("POST", "/batches/{uuid:batch_id}/files/{uuid:file_id}/upload-url", "upload_renew", ADD_FILE,
     schemas.UploadOut, **ADDRESS)  # fmt: skip
def renew(request: HttpRequest, batch_id: UUID, file_id: UUID, asked: Query[Owned]) -> Any:
    """Get a new address for a file that has not been confirmed."""
    return schemas.of_upload(batches.renew(owner_of(request, asked.owner), batch_id, file_id))


@_on("POST", "/batches/{uuid:batch_id}/seal", "upload_batch_seal", CHANGE_FILE, schemas.BatchOut)
def seal(request: HttpRequest, batch_id: UUID, asked: Query[Owned]) -> Any:
    """Close a batch: no more files come."""
    return schemas.of_batch(batches.seal(owner_of(request, asked.owner), batch_id))


@_on("DELETE", "/batches/{uuid:batch_id}", "upload_batch_cancel", CHANGE_FILE, schemas.BatchOut)
def cancel(request: HttpRequest, batch_id: UUID, asked: Query[Owned]) -> Any:
    """Cancel a batch; files that are ready stay."""
    owner = owner_of(request, asked.owner)
    return schemas.of_batch(batches.cancel(owner, batch_id, by=_by(request)))


# ---- files


class FileFilters(Owned):
    """Filters of the list of files."""

    status: schemas.State | None = None
    batchId: UUID | None = None
    type: str = Field("", max_length=20)


@_on("GET", "/files", "upload_file_list", VIEW_FILE, schemas.FilePage)
def file_list(
    request: HttpRequest, response: HttpResponse, asked: Query[FileFilters],
    wanted: Query[paging.PageIn],
) -> Any:  # fmt: skip
    """List files, newest first."""
    owner = owner_of(request, asked.owner)
    rows = File.objects.shown().filter(owner=owner)
    if asked.status is not None:
        rows = rows.filter(status=asked.status)
    if asked.batchId is not None:
        rows = rows.filter(batch_id=asked.batchId)
    if asked.type:
        rows = rows.filter(type=asked.type)
    filters = {**asked.model_dump(), "owner": owner}
    found = paging.page(request, response, rows, wanted, filters=filters)
    return {**found, "data": [schemas.of_file(row) for row in found["data"]]}


@_on("PATCH", "/files", "upload_file_metadata", CHANGE_FILE, schemas.ChangedOut,
     body_limit=BODY_LIMIT)  # fmt: skip
def file_metadata(request: HttpRequest, body: schemas.MetadataIn) -> Any:
    """Set the metadata of up to 500 files, all or none."""
    changes = {one.fileId: one.metadata for one in body.files}
    return {"changed": batches.set_metadata(owner_of(request, body.owner), changes)}


def _file(request: HttpRequest, file_id: UUID, named: str) -> File:
    owner = owner_of(request, named)
    file = File.objects.shown().filter(pk=file_id, owner=owner).first()
    if file is None:
        raise Refused("FILE_NOT_FOUND", "there is no such file")
    return file


@_on("GET", "/files/{uuid:file_id}", "upload_file_get", VIEW_FILE, schemas.FileDetail)
def file_get(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Get a file with its stages."""
    file = _file(request, file_id, asked.owner)
    runs = [
        {"stage": run.stage, "jobId": run.job_id, "attempts": run.attempts,
         "outcome": run.outcome, "errorCode": run.error_code, "startedAt": run.started_at,
         "endedAt": run.ended_at}
        for run in file.runs.order_by("pk")
    ]  # fmt: skip
    return {**schemas.of_file(file), "stages": runs}


@_on("DELETE", "/files/{uuid:file_id}", "upload_file_delete", DELETE_FILE, {204: None})
def file_delete(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Delete a file in any state; no answer shows it any more."""
    deleting.delete(owner_of(request, asked.owner), file_id)
    return Status(204, None)


@_on("GET", "/files/{uuid:file_id}/content", "upload_file_content", VIEW_FILE, schemas.LinkOut)
def file_content(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Get an address from which the file may be downloaded for 15 minutes."""
    file = _file(request, file_id, asked.owner)
    if not file.blob_etag:
        raise Refused("BLOB_NOT_FOUND", "the file has not been uploaded")
    name = names.download_name(file.name)
    return {"url": blobs.store().get_url(file.blob_key, content_type=file.content_type,
                                         filename=name)}  # fmt: skip


def _ready(request: HttpRequest, file_id: UUID, named: str) -> File:
    file = _file(request, file_id, named)
    if file.content is None or file.status != FileStatus.READY:
        raise Refused("STATE_CONFLICT", f"it is {file.status}")
    return file


@_on("GET", "/files/{uuid:file_id}/text", "upload_file_text", VIEW_FILE, schemas.TextOut)
def file_text(request: HttpRequest, file_id: UUID, asked: Query[Part]) -> Any:
    """Get the text of a document, a hundred thousand characters at a time."""
    file = _ready(request, file_id, asked.owner)
    text = file.content.text if file.content is not None else ""
    part = text[asked.offset : asked.offset + schemas.MOST_TEXT]
    return {"fileId": file.pk, "text": part, "offset": asked.offset, "total": len(text)}


@_on("GET", "/files/{uuid:file_id}/chunks", "upload_file_chunks", VIEW_FILE, schemas.ChunkPage)
def file_chunks(request: HttpRequest, file_id: UUID, asked: Query[Part]) -> Any:
    """Get the chunks of a document, in their order."""
    file = _ready(request, file_id, asked.owner)
    rows = Chunk.objects.filter(content=file.content_id).order_by("number")
    data = [
        {"number": c.number, "text": c.text, "start": c.start, "end": c.end,
         "pages": [c.first_page, c.last_page] if c.first_page else None,
         "headings": c.headings, "tokens": c.tokens}
        for c in rows[asked.offset : asked.offset + asked.limit]
    ]  # fmt: skip
    return {"data": data, "total": rows.count()}


# ---- dead letters


@_on("GET", "/dlq", "upload_dlq_list", VIEW_FILE, schemas.Letters)
def dlq_list(request: HttpRequest, asked: Query[Part]) -> Any:
    """List files whose last attempt has failed, newest first."""
    owner = owner_of(request, asked.owner)
    is_staff = auth.who(request).is_staff
    entries = retrying.letters(owner, asked.limit, asked.offset, with_stacks=is_staff)
    return {"entries": entries}


@_on("POST", "/dlq/{uuid:file_id}/retry", "upload_dlq_retry", CHANGE_FILE, schemas.SuccessOut)
def dlq_retry(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Retry a failed file at the stage that failed."""
    retrying.retry(owner_of(request, asked.owner), file_id, by=_by(request))
    return {"success": True}


@_on("POST", "/dlq/retry-all", "upload_dlq_retry_all", CHANGE_FILE, schemas.RetryAllOut)
def dlq_retry_all(
    request: HttpRequest, asked: Query[Owned], body: schemas.RetryAllIn | None = None
) -> Any:
    """Retry up to a hundred failed files at once; with ``all``, a job retries the rest."""
    owner = owner_of(request, asked.owner)
    done = retrying.retry_all(owner, by=_by(request))
    if body is not None and body.all and done.remaining:
        retrying.retry_rest(owner, by=_by(request))
    return {"retried": done.retried, "failed": done.failed, "remaining": done.remaining}


# ---- search


def _search(request: HttpRequest, body: schemas.SearchIn) -> dict[str, Any]:
    metadata = None if body.metadata is None else json.dumps(body.metadata)
    if metadata is not None and "\\u0000" in metadata:
        raise Refused("INVALID_REQUEST", "must not contain NUL", "metadata")
    found = search.search(
        owner_of(request, body.owner), body.q, mode=body.mode, batch_id=body.batchId,
        folder_id=body.folderId, neighbours=body.neighbours,
        type=body.type.replace("\x00", ""), metadata=metadata, limit=body.limit,
        min_score=body.minScore,
    )  # fmt: skip
    return {"mode": found.mode, "hits": [schemas.of_hit(hit) for hit in found.hits]}


class SearchQuery(Owned):
    """A search in the address."""

    q: str = Field(max_length=4000)
    mode: str = "hybrid"
    batchId: UUID | None = None
    folderId: UUID | None = None
    type: str = Field("", max_length=20)
    limit: int = Field(10, ge=1, le=50)
    neighbours: int = Field(0, ge=0, le=search.NEIGHBOURS)
    minScore: float = Field(0.0, ge=0, le=1)


@_on("GET", "/search", "upload_search", VIEW_FILE, schemas.SearchOut)
def search_get(request: HttpRequest, asked: Query[SearchQuery]) -> Any:
    """Search documents by words and by meaning."""
    return _search(request, schemas.SearchIn(**asked.model_dump()))


@_on("POST", "/search", "upload_search_post", VIEW_FILE, schemas.SearchOut)
def search_post(request: HttpRequest, body: schemas.SearchIn) -> Any:
    """Search documents by words and by meaning; the question is in no address."""
    return _search(request, body)


# ---- how it goes


def _distribution(owner: str) -> dict[str, int]:
    rows = File.objects.shown().filter(owner=owner).values("status").annotate(n=Count("pk"))
    counted = {row["status"]: row["n"] for row in rows}
    return {state: counted.get(state, 0) for state in FileStatus.values}


@_on("GET", "/health", "upload_health", VIEW_FILE, schemas.HealthOut)
def health(request: HttpRequest, asked: Query[Owned]) -> Any:
    """Tell the states of files, the moves between them, and how many files are where."""
    ways = {state: sorted(states.files.ways(state)) for state in FileStatus.values}
    return {
        "version": "2", "timestamp": now(), "states": FileStatus.values, "transitions": ways,
        "distribution": _distribution(owner_of(request, asked.owner)),
        "search": "hybrid" if embedding.model() else "text", "isolation": sandbox.isolation(),
    }  # fmt: skip


@_on("GET", "/dashboard", "upload_dashboard", VIEW_FILE, schemas.DashboardOut)
def dashboard(request: HttpRequest, asked: Query[Owned]) -> Any:
    """Tell how the owner's files come through."""
    owner = owner_of(request, asked.owner)
    rows = File.objects.shown().filter(owner=owner)
    day = rows.filter(ended_at__gt=timezone.now() - timedelta(days=1))
    numbers = day.aggregate(
        ready=Count("pk", filter=Q(status="ready")), failed=Count("pk", filter=Q(status="failed")),
        took=Avg(F("ended_at") - F("confirmed_at"), filter=Q(status="ready")),
    )  # fmt: skip
    errors = rows.filter(status="failed").order_by("-ended_at")[:10]
    ended = numbers["ready"] + numbers["failed"]
    letters = DeadLetter.objects.filter(state="open", tenant=owner, kind__startswith="fileproc.")
    open_now = [BatchStatus.PENDING_UPLOAD, BatchStatus.ACTIVE]
    return {
        "statusDistribution": _distribution(owner),
        "activeBatches": Batch.objects.filter(owner=owner, status__in=open_now).count(),
        "dlqDepth": letters.count(), "stuckFiles": upkeep.stuck().filter(owner=owner).count(),
        "bytesUsed": batches.used_bytes(owner),
        "recentErrors": [{"fileId": str(f.pk), "error": f.error_code} for f in errors],
        "metrics": {
            "averageProcessingTime": numbers["took"] and numbers["took"].total_seconds(),
            "throughput24h": numbers["ready"],
            "failureRate24h": round(numbers["failed"] / ended, 4) if ended else 0,
        },
    }  # fmt: skip


@_on("GET", "/stuck", "upload_stuck", VIEW_FILE, schemas.StuckPage)
def stuck(request: HttpRequest, asked: Query[Owned]) -> Any:
    """List files that have not moved for half an hour, though nothing holds them back."""
    rows = upkeep.stuck().filter(owner=owner_of(request, asked.owner)).order_by("moved_at")[:200]
    return {"data": [{"fileId": f.pk, "batchId": f.batch_id, "status": f.status,
                      "since": f.moved_at} for f in rows]}  # fmt: skip


@_on("POST", "/stuck/{uuid:file_id}/retry", "upload_stuck_retry", CHANGE_FILE, schemas.SuccessOut)
def stuck_retry(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Give a stuck file new jobs."""
    file = _file(request, file_id, asked.owner)
    if not upkeep.restart(file.pk, file.batch_id, by=_by(request)):
        raise Refused("STATE_CONFLICT", "it is not stuck")
    return {"success": True}


@_on("GET", "/orphans", "upload_orphans", VIEW_FILE, schemas.OrphansOut)
def orphans(request: HttpRequest) -> Any:
    """List blobs without a file, and files without their blob; for keys of all tenants."""
    if auth.who(request).scope.tenants is not None:
        raise Refused("FORBIDDEN", "only a key of all tenants may see what belongs to nobody")
    found = upkeep.orphans()
    return {
        "blobs": [{"key": one.key, "size": one.size, "writtenAt": one.written_at}
                  for one in found.blobs[:200]],
        "files": found.files[:200],
    }  # fmt: skip


api = build_api(include=(), urls_namespace="uploads-api", title="Uploads", auth=logins())
api.add_router("", router)
api.add_router("", section.router)
add_rest(api, auth=logins())
