"""Generations of a file: a new one is built beside the old, and takes its place once it is ready.

The next generation of a file is a draft: a file that goes through the same stages, is in no answer,
and is not counted in its batch.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID, uuid4

from django.db.models import Q
from django.utils import timezone

import jobs
from fileproc import flow, pipeline_version, stages, states
from fileproc.models import Chunk, Content, File, FileStatus, Stage
from fileproc.payloads import Erase


def hide(file: File) -> None:
    """Delete a locked file with its draft: no answer shows it once this is committed."""
    draft = Q(replaces=file.pk, is_draft=True)
    gone = list(File.objects.live().filter(Q(pk=file.pk) | draft).values_list("pk", flat=True))
    File.objects.filter(pk__in=gone).update(deleted_at=timezone.now())
    if not file.is_draft:
        states.recount(file.batch_id, Counter({file.status: -1}), -1)
    jobs.enqueue_many([jobs.Draft(Erase(file_id=pk), tenant=file.owner) for pk in gone])


def begin(file: File, *, by: str) -> File:
    """Return a draft of a locked file that is ready, which is queued for the stages that changed.

    If nothing has changed since the file was processed, it is read again.
    """
    version = pipeline_version.of(file.batch)
    old = file.content
    assert old is not None  # noqa: S101 - it is ready
    first = pipeline_version.first_change(old.pipeline, version)
    draft = File.objects.create(
        batch=file.batch, owner=file.owner, name=file.name, path=file.path, size=file.size,
        content_type=file.content_type, type=file.type, blob_key=file.blob_key,
        blob_etag=file.blob_etag, md5=file.md5, sha256=file.sha256, confirmed_at=timezone.now(),
        warnings=file.warnings, replaces=file.pk, is_draft=True,
    )  # fmt: skip
    new = _content(draft, version, is_new=first is None)
    first = _carry(old, new, first or Stage.EXTRACT)
    File.objects.filter(pk=draft.pk).update(content=new)
    states.files.move(draft, FileStatus.QUEUED, by=by, resume_stage=first)
    flow.enqueue([draft], first)
    return draft


def _content(draft: File, version: str, *, is_new: bool) -> Content:
    if not is_new:
        return stages.content_of(draft.owner, draft.sha256, version)
    return Content.objects.create(
        owner=draft.owner, sha256=draft.sha256, pipeline=version, edition=draft.pk.hex,
        holder=draft.pk,
    )  # fmt: skip


def _carry(old: Content, new: Content, first: Stage) -> Stage:
    """Copy what the first changed stage needs; return the stage to begin with.

    The draft begins at the first stage where an equal file is at work on the new content, or has
    been: it waits for that one there, or takes over what it has produced.
    """
    if first == Stage.EXTRACT or new.holder is not None or new.is_ready or new.text:
        return Stage.EXTRACT
    Content.objects.filter(pk=new.pk).update(
        type=old.type, text=old.text, pages=old.pages, headings=old.headings,
        is_table=old.is_table, warnings=old.warnings,
    )  # fmt: skip
    if first == Stage.EMBED:
        chunks = list(old.chunks.order_by("number"))
        for chunk in chunks:
            chunk.pk, chunk.content = None, new
        Chunk.objects.bulk_create(chunks, batch_size=500)
    return first


def take_over(file: File, replaced: UUID) -> None:
    """Let a file that became ready take the place of the one that it replaces.

    To be called in the transaction that has moved it, with the batches of both locked.
    """
    old = File.objects.live().select_for_update(no_key=True).filter(pk=replaced).first()
    if old is None:
        return
    if not file.is_draft:
        hide(old)
        return
    File.objects.filter(pk=old.pk).update(
        content=file.content, type=file.type, chunk_count=file.chunk_count,
        warnings=file.warnings, isolation=file.isolation or old.isolation,
        generation=old.generation + 1,
    )  # fmt: skip
    # What is removed with the draft is the old generation.
    File.objects.filter(pk=file.pk).update(content=old.content, deleted_at=timezone.now())
    _publish(file)
    jobs.enqueue(Erase(file_id=file.pk), tenant=file.owner)
    payload = {
        "fileId": str(old.pk), "batchId": str(old.batch_id), "generation": old.generation + 1,
        "chunkCount": file.chunk_count,
    }  # fmt: skip
    jobs.emit("file:reprocessed", payload, key=f"batch:{old.batch_id}", tenant=old.owner)


def _publish(file: File) -> None:
    """Let new equal files share the latest edition in place of the former one."""
    made = file.content
    if made is None or not made.edition:
        return
    same = Content.objects.filter(owner=made.owner, sha256=made.sha256, pipeline=made.pipeline)
    former = same.filter(edition="")
    if former.filter(is_ready=False).exists():
        return  # another file is at work on it
    former.update(edition=uuid4().hex)
    same.filter(pk=made.pk).update(edition="")
