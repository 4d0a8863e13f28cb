"""Reprocessing: a new generation of a file, while searches still find the old one."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from fileproc import generations
from fileproc.errors import Refused
from fileproc.models import File, FileStatus
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
