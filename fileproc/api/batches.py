"""Batches: announcing, confirming, sealing and cancelling."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Status

from fileproc import config, schemas
from fileproc.api.base import BODY_LIMIT, Owned, name_of, on
from fileproc.errors import Refused
from fileproc.login import owner_of
from fileproc.models import Batch
from fileproc.permissions import covers
from fileproc.services import announcing, batches, confirming
from fileproc.verbs import ADD_FILE, CHANGE_FILE, VIEW_FILE
from jobs.api import auth, paging, prepared


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


@on("POST", "/batches", "upload_batch_create", ADD_FILE,
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


@on("GET", "/batches", "upload_batch_list", VIEW_FILE, schemas.BatchPage)
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


@on("GET", "/batches/{uuid:batch_id}", "upload_batch_get", VIEW_FILE, schemas.BatchOut)
def batch_get(request: HttpRequest, batch_id: UUID, asked: Query[Owned]) -> Any:
    """Tell how far a batch is."""
    return schemas.of_batch(_batch(request, batch_id, asked.owner))


@on("POST", "/batches/{uuid:batch_id}/upload-urls", "upload_register", ADD_FILE,
     schemas.UploadOut, **ADDRESS)  # fmt: skip
def register(
    request: HttpRequest, batch_id: UUID, body: schemas.UploadIn, asked: Query[Owned]
) -> Any:
    """Announce a file of a batch, and get the address to upload it to."""
    made = batches.register(
        owner_of(request, asked.owner), batch_id,
        announcing.Announced(body.fileName, body.fileSize, body.path, body.lastModified,
                             body.contentHash.lower(), body.metadata,
                             replaces=body.replaceFileId),
    )  # fmt: skip
    return schemas.of_upload(made)


def _head(
    request: HttpRequest, batch_id: UUID, file_id: UUID, body: Any, asked: Any
) -> confirming.Heads:
    return confirming.heads(owner_of(request, asked.owner), batch_id, [file_id])


@on("POST", "/batches/{uuid:batch_id}/files/{uuid:file_id}/confirm", "upload_confirm", ADD_FILE,
     schemas.ConfirmedOut, before=_head)  # fmt: skip
def confirm(
    request: HttpRequest, batch_id: UUID, file_id: UUID, body: schemas.ConfirmIn,
    asked: Query[Owned],
) -> Any:  # fmt: skip
    """Confirm an upload, which queues the file; a second time changes nothing."""
    arrival = confirming.Arrival(file_id, body.size, body.md5)
    owner = owner_of(request, asked.owner)
    [done] = confirming.confirm(owner, batch_id, [arrival], prepared(request), by=name_of(request))
    if done.refused is not None:
        raise done.refused
    return schemas.of_confirmed(done)


def _heads(request: HttpRequest, batch_id: UUID, body: Any, asked: Any) -> confirming.Heads:
    if len(body.files) > config.FILES_LIMIT:
        raise Refused("BATCH_TOO_LARGE", f"at most {config.FILES_LIMIT} files", "files")
    ids = [one.fileId for one in body.files]
    return confirming.heads(owner_of(request, asked.owner), batch_id, ids)


@on("POST", "/batches/{uuid:batch_id}/confirm", "upload_confirm_many", ADD_FILE,
     schemas.ConfirmedMany, before=_heads)  # fmt: skip
def confirm_many(
    request: HttpRequest, batch_id: UUID, body: schemas.ConfirmManyIn, asked: Query[Owned]
) -> Any:
    """Confirm up to 500 uploads; each is judged on its own."""
    arrivals = [confirming.Arrival(one.fileId, one.size, one.md5) for one in body.files]
    owner = owner_of(request, asked.owner)
    done = confirming.confirm(owner, batch_id, arrivals, prepared(request), by=name_of(request))
    refused = sum(one.refused is not None for one in done)
    return {"confirmed": len(done) - refused, "refused": refused,
            "files": [schemas.of_confirmed(one) for one in done]}  # fmt: skip


@on("POST", "/batches/{uuid:batch_id}/files/{uuid:file_id}/upload-url", "upload_renew", ADD_FILE,
     schemas.UploadOut, **ADDRESS)  # fmt: skip
def renew(request: HttpRequest, batch_id: UUID, file_id: UUID, asked: Query[Owned]) -> Any:
    """Get a new address for a file that has not been confirmed."""
    return schemas.of_upload(batches.renew(owner_of(request, asked.owner), batch_id, file_id))


@on("POST", "/batches/{uuid:batch_id}/seal", "upload_batch_seal", CHANGE_FILE, schemas.BatchOut)
def seal(request: HttpRequest, batch_id: UUID, asked: Query[Owned]) -> Any:
    """Close a batch: no more files come."""
    return schemas.of_batch(batches.seal(owner_of(request, asked.owner), batch_id))


@on("DELETE", "/batches/{uuid:batch_id}", "upload_batch_cancel", CHANGE_FILE, schemas.BatchOut)
def cancel(request: HttpRequest, batch_id: UUID, asked: Query[Owned]) -> Any:
    """Cancel a batch; files that are ready stay."""
    owner = owner_of(request, asked.owner)
    return schemas.of_batch(batches.cancel(owner, batch_id, by=name_of(request)))
