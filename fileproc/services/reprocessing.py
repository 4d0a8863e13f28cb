"""Reprocessing: a new generation of a file, while searches still find the old one."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db import transaction

from fileproc import generations, pipeline_version
from fileproc.errors import Refused
from fileproc.models import Batch, File, FileStatus
from fileproc.services import batches


def reprocess(owner: str, file_id: UUID, *, by: str) -> File:
    """Begin a new generation of a file that is ready, unless one is being built; raise Refused."""
    with transaction.atomic():
        _, file = batches.locked_with(owner, file_id)
        if file.status == FileStatus.FAILED:
            raise Refused("STATE_CONFLICT", "it has failed; retry it instead")
        if file.status != FileStatus.READY:
            raise Refused("STATE_CONFLICT", f"it is {file.status}, and not ready yet")
        draft = file.draft()
        if draft is not None and draft.status == FileStatus.FAILED:
            generations.hide(draft)
            draft = None
        if draft is None:
            generations.begin(file, by=by)
    return file


def outdated(owner: str = "") -> Iterator[File]:
    """Yield the files of an owner, or of all, that would be processed differently today."""
    several = Batch.objects.filter(owner=owner) if owner else Batch.objects.all()
    for batch in several.order_by("created_at", "pk").iterator():
        files = File.objects.shown().filter(batch=batch, status=FileStatus.READY)
        files = files.exclude(content__pipeline=pipeline_version.of(batch))
        yield from files.order_by("created_at", "pk")
