"""Numbers of the last day: how long documents take, how many, and whether retries help."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import Count, F, Q
from django.utils import timezone

from fileproc.models import File, FileStatus, StageRun
from fileproc.payloads import KINDS
from jobs.models import Attempt

DAY = timedelta(days=1)
OLDEST = 2 * DAY
"""How long ago a document was announced, at most: it is found by an index."""


class P95(models.Aggregate):
    """The value that 95 of 100 do not exceed."""

    function = "percentile_cont"
    template = "%(function)s(0.95) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = models.DurationField()


@dataclass(frozen=True, slots=True)
class Numbers:
    """What happened in a day."""

    ready: int
    failed: int
    p95: float | None
    """Seconds from confirmation to ready."""
    stalls: int
    """Attempts whose worker died or fell silent."""
    retried: int
    """Stages whose first attempt failed, and that have ended."""
    mended: int
    """Those of them that the second attempt has finished."""


def of_day(owners: Collection[str] | None = None) -> Numbers:
    """Return the numbers of these owners, or of all."""
    now = timezone.now()
    files = File.objects.live().filter(created_at__gt=now - OLDEST)
    attempts = Attempt.objects.filter(ended_at__gt=now - DAY, job__kind__in=KINDS)
    if owners is not None:
        files, attempts = files.filter(owner__in=owners), attempts.filter(job__tenant__in=owners)
    ended = files.filter(ended_at__gt=now - DAY)
    counted: dict[str, Any] = ended.filter(is_draft=False).aggregate(
        ready=Count("pk", filter=Q(status=FileStatus.READY)),
        failed=Count("pk", filter=Q(status=FileStatus.FAILED)),
    )
    took: dict[str, Any] = ended.filter(status=FileStatus.READY).aggregate(
        p95=P95(F("ended_at") - F("confirmed_at"))
    )
    retries: dict[str, Any] = StageRun.objects.filter(
        file__in=files, attempts__gte=2, ended_at__gt=now - DAY
    ).aggregate(all=Count("pk"), mended=Count("pk", filter=Q(outcome="done", attempts=2)))
    return Numbers(
        counted["ready"], counted["failed"], took["p95"] and took["p95"].total_seconds(),
        attempts.filter(outcome__in=[Attempt.Outcome.CRASHED, Attempt.Outcome.LOST]).count(),
        retries["all"], retries["mended"],
    )  # fmt: skip
