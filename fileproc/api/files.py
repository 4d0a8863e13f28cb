"""Files: their lists, contents, texts and chunks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Status

from fileproc import names, schemas
from fileproc.api.base import BODY_LIMIT, Owned, Part, find_file, name_of, on
from fileproc.errors import Refused
from fileproc.login import owner_of
from fileproc.models import Chunk, File, FileStatus
from fileproc.services import batches, deleting, reprocessing
from fileproc.verbs import CHANGE_FILE, DELETE_FILE, VIEW_FILE
from jobs import blobs
from jobs.api import paging


class FileFilters(Owned):
    """Filters of the list of files."""

    status: schemas.State | None = None
    batchId: UUID | None = None
    type: str = Field("", max_length=20)


@on("GET", "/files", "upload_file_list", VIEW_FILE, schemas.FilePage)
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


@on("PATCH", "/files", "upload_file_metadata", CHANGE_FILE, schemas.ChangedOut,
     body_limit=BODY_LIMIT)  # fmt: skip
def file_metadata(request: HttpRequest, body: schemas.MetadataIn) -> Any:
    """Set the metadata of up to 500 files, all or none."""
    changes = {one.fileId: one.metadata for one in body.files}
    return {"changed": batches.set_metadata(owner_of(request, body.owner), changes)}


@on("GET", "/files/{uuid:file_id}", "upload_file_get", VIEW_FILE, schemas.FileDetail)
def file_get(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Get a file with its stages."""
    return schemas.of_detail(find_file(request, file_id, asked.owner))


@on("POST", "/files/{uuid:file_id}/reprocess", "upload_file_reprocess", CHANGE_FILE,
    {202: schemas.FileDetail})  # fmt: skip
def file_reprocess(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Process a file that is ready again; searches find the old text until the new is there."""
    owner = owner_of(request, asked.owner)
    file = reprocessing.reprocess(owner, file_id, by=name_of(request))
    return Status(202, schemas.of_detail(file))


@on("DELETE", "/files/{uuid:file_id}", "upload_file_delete", DELETE_FILE, {204: None})
def file_delete(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Delete a file in any state; no answer shows it any more."""
    deleting.delete(owner_of(request, asked.owner), file_id)
    return Status(204, None)


@on("GET", "/files/{uuid:file_id}/content", "upload_file_content", VIEW_FILE, schemas.LinkOut)
def file_content(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Get an address from which the file may be downloaded for 15 minutes."""
    file = find_file(request, file_id, asked.owner)
    if not file.blob_etag:
        raise Refused("BLOB_NOT_FOUND", "the file has not been uploaded")
    name = names.download_name(file.name)
    return {"url": blobs.store().get_url(file.blob_key, content_type=file.content_type,
                                         filename=name)}  # fmt: skip


def _ready(request: HttpRequest, file_id: UUID, named: str) -> File:
    file = find_file(request, file_id, named)
    if file.content is None or file.status != FileStatus.READY:
        raise Refused("STATE_CONFLICT", f"it is {file.status}")
    return file


@on("GET", "/files/{uuid:file_id}/text", "upload_file_text", VIEW_FILE, schemas.TextOut)
def file_text(request: HttpRequest, file_id: UUID, asked: Query[Part]) -> Any:
    """Get the text of a document, a hundred thousand characters at a time."""
    file = _ready(request, file_id, asked.owner)
    text = file.content.text if file.content is not None else ""
    part = text[asked.offset : asked.offset + schemas.MOST_TEXT]
    return {"fileId": file.pk, "text": part, "offset": asked.offset, "total": len(text)}


@on("GET", "/files/{uuid:file_id}/chunks", "upload_file_chunks", VIEW_FILE, schemas.ChunkPage)
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
