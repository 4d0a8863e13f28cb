"""Verbs on documents, uploads and quotas, for the admin, the command line and the API."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.utils.translation import gettext_lazy as _
from pydantic import Field

from fileproc.models import Batch, File, Quota
from fileproc.permissions import QUEUES
from fileproc.services import batches, deleting, reprocessing, retrying
from jobs.verbs import By, Target, acting, verb

VIEW_FILE = "fileproc.view_file"
ADD_FILE = "fileproc.add_file"
CHANGE_FILE = "fileproc.change_file"
DELETE_FILE = "fileproc.delete_file"
VIEW_BATCH = "fileproc.view_batch"
VIEW_CONTENT = "fileproc.view_content"
CHANGE_QUOTA = "fileproc.change_quota"
PERMISSIONS = {
    VIEW_FILE: _("Can see documents"),
    ADD_FILE: _("Can upload documents"),
    CHANGE_FILE: _("Can retry, cancel and seal uploads"),
    DELETE_FILE: _("Can delete documents"),
    VIEW_BATCH: _("Can see uploads"),
    VIEW_CONTENT: _("Can see the text of others' documents"),
    CHANGE_QUOTA: _("Can change quotas"),
}
OWN = frozenset({VIEW_FILE, ADD_FILE, CHANGE_FILE, DELETE_FILE, VIEW_BATCH, VIEW_CONTENT})
"""What every user may do with documents of his own."""

QUEUE = QUEUES[0]
DOCUMENT = Target(
    "document", UUID, "documents", rows=File.objects.shown, tenant="owner", queue=QUEUE
)
UPLOAD = Target("upload", UUID, "uploads", rows=Batch.objects.all, tenant="owner", queue=QUEUE)
QUOTA = Target("quota", str, "quotas", rows=Quota.objects.all, tenant="owner", queue=QUEUE)
Bytes = Annotated[int | None, Field(description="bytes of all files; - for the default", ge=0)]
Open = Annotated[int | None, Field(description="open uploads; - for the default", ge=0)]


def _name(by: By) -> str:
    return by if isinstance(by, str) else by.name


@verb("document.retry", on=DOCUMENT, permission=CHANGE_FILE)
def retry(document_id: UUID, *, by: By, reason: str) -> None:
    """Retry a failed document at the stage that failed."""
    with acting(retry, document_id, by=by, reason=reason) as act:
        file = File.objects.shown().get(pk=document_id)
        retrying.retry(file.owner, document_id, by=_name(by))
        act.changed({"status": "failed"}, {"status": "queued"})


@verb("document.reprocess", on=DOCUMENT, permission=CHANGE_FILE)
def reprocess(document_id: UUID, *, by: By, reason: str) -> None:
    """Process a document that is ready again; its old text stays searchable until it is done."""
    with acting(reprocess, document_id, by=by, reason=reason) as act:
        file = File.objects.shown().get(pk=document_id)
        reprocessing.reprocess(file.owner, document_id, by=_name(by))
        act.changed({"generation": file.generation}, {"generation": file.generation + 1})


@verb("document.delete", on=DOCUMENT, permission=DELETE_FILE)
def delete(document_id: UUID, *, by: By, reason: str) -> None:
    """Delete a document with its text, chunks and vectors."""
    with acting(delete, document_id, by=by, reason=reason):
        file = File.objects.shown().get(pk=document_id)
        deleting.delete(file.owner, document_id)


@verb("document.show", on=DOCUMENT, permission=VIEW_CONTENT, group="administrator")
def show(document_id: UUID, *, by: By, reason: str) -> str:
    """Show the beginning of a document's text; the access and its reason are audited."""
    with acting(show, document_id, by=by, reason=reason):
        file = File.objects.shown().select_related("content").get(pk=document_id)
        return file.content.text[:20_000] if file.content is not None else ""


@verb("upload.cancel", on=UPLOAD, permission=CHANGE_FILE)
def cancel(upload_id: UUID, *, by: By, reason: str) -> None:
    """Cancel an upload: its unfinished documents fail, the others stay."""
    with acting(cancel, upload_id, by=by, reason=reason) as act:
        batch = Batch.objects.get(pk=upload_id)
        batches.cancel(batch.owner, upload_id, by=_name(by))
        act.changed({"status": batch.status}, {"status": "cancelled"})


@verb("upload.seal", on=UPLOAD, permission=CHANGE_FILE)
def seal(upload_id: UUID, *, by: By, reason: str) -> None:
    """Close an upload: no more documents come, and unused slots leave its total."""
    with acting(seal, upload_id, by=by, reason=reason):
        batch = Batch.objects.get(pk=upload_id)
        batches.seal(batch.owner, upload_id)


@verb("quota.set", on=QUOTA, permission=CHANGE_QUOTA, group="administrator")
def set_quota(
    owner: str, *, by: By, reason: str, bytes_limit: Bytes = None, batches_limit: Open = None
) -> None:
    """Set how much an owner may store."""
    with acting(set_quota, owner, by=by, reason=reason) as act:
        row = Quota.objects.select_for_update().get(pk=owner)
        before = {"bytes": row.bytes_limit, "batches": row.batches_limit}
        row.bytes_limit, row.batches_limit = bytes_limit, batches_limit
        row.save()
        act.changed(before, {"bytes": bytes_limit, "batches": batches_limit})
