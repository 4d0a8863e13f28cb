"""Deleting files: hidden at once, removed by a job."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from fileproc import generations
from fileproc.services import batches


def delete(owner: str, file_id: UUID) -> None:
    """Delete a file in any state: no answer shows it any more once this is committed."""
    with transaction.atomic():
        _, file = batches.locked_with(owner, file_id)
        generations.hide(file)
