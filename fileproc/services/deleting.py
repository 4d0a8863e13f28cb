"""Deleting files: hidden at once, removed by a job."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from django.db import transaction
from django.utils import timezone

import jobs
from fileproc import states
from fileproc.errors import Refused
from fileproc.models import File
from fileproc.payloads import Erase
from fileproc.services import batches


def delete(owner: str, file_id: UUID) -> None:
    """Delete a file in any state: no answer shows it any more once this is committed."""
    known = File.objects.shown().filter(pk=file_id, owner=owner).values_list("batch_id").first()
    if known is None:
        raise Refused("FILE_NOT_FOUND", "there is no such file")
    with transaction.atomic():
        batches.locked(owner, known[0])
        file = batches.found(owner, file_id)
        File.objects.filter(pk=file.pk).update(deleted_at=timezone.now())
        states.recount(file.batch_id, Counter({file.status: -1}), -1)
        jobs.enqueue(Erase(file_id=file.pk), tenant=owner)
