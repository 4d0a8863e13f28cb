"""Deleting what is old: signatures, runs without a job, and digests; their snapshots stay."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

import jobs
from trading.ai.signatures import REMEMBER
from trading.clock import now
from trading.config import KEEP_DIGESTS
from trading.models import AiSignature, Digest, ImportRun, ScoreRun

KEEP_RUNS = timedelta(days=90)


def clear(dry_run: bool, chunk: int) -> Iterator[dict[str, int]]:
    """Delete old rows, or count them."""
    moment = now()
    has_job = Exists(jobs.Job.objects.filter(pk=OuterRef("pk")))
    old: dict[str, QuerySet[Any]] = {
        "AI signatures": AiSignature.objects.filter(seen_at__lt=moment - REMEMBER),
        "imports": ImportRun.objects.filter(~has_job, created_at__lt=moment - KEEP_RUNS),
        "scorings": ScoreRun.objects.filter(~has_job, created_at__lt=moment - KEEP_RUNS),
        "digests": Digest.objects.filter(period_end__lt=(moment - KEEP_DIGESTS).date()),
    }
    if dry_run:
        yield {name: rows.count() for name, rows in old.items()}
        return
    for name, rows in old.items():
        while True:
            with transaction.atomic():
                some = rows.select_for_update(skip_locked=True, of=("self",)).order_by("pk")
                ids = list(some.values_list("pk", flat=True)[:chunk])
                gone, _ = rows.model._default_manager.filter(pk__in=ids).delete()
            if gone:
                yield {name: gone}
            if len(ids) < chunk:
                break
