"""Retention: deletes operations that ended long ago, with their documents and forgotten exports."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef

import jobs
from jobs import blobs
from operations.clock import now
from operations.config import settings
from operations.mirror import KEPT
from operations.models import Document, Operation, Outcome, Phase

KEEP = timedelta(days=90)
_OVER = (Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED)


def clear(dry_run: bool, chunk: int) -> Iterator[Mapping[str, int]]:
    """Delete old rows in chunks; undecided ones stay, and those whose jobs are kept."""
    has_job = Exists(jobs.Job.objects.filter(pk=OuterRef("pk")))
    over = Operation.objects.filter(phase__in=_OVER, ended_at__lt=now() - KEEP)
    old = over.exclude(run__outcome=Outcome.HELD).filter(~has_job)
    if dry_run:
        yield {"operations": old.count()}
        return
    _clear_exports()
    while gone := list(old.order_by("ended_at").values_list("pk", flat=True)[:chunk]):
        for key in Document.objects.filter(pk__in=gone).values_list("blob", flat=True):
            blobs.store().delete(key)
        with transaction.atomic():
            Operation.objects.filter(pk__in=gone).delete()
        yield {"operations": len(gone)}


def _clear_exports() -> None:
    for path in settings().exports().glob("*.*"):
        if time.time() - path.stat().st_mtime > KEPT:
            path.unlink(missing_ok=True)
