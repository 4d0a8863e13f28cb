"""The browsers of all workers, as their running operations show them."""

from __future__ import annotations

from django.db.models import Count, QuerySet

import jobs
from operations.models import ClientKind, Operation, Phase


def browsers_of(rows: QuerySet[Operation]) -> tuple[int, int]:
    """Return how many executors use a browser for these operations, and how many contexts."""
    running = rows.filter(phase=Phase.IN_PROGRESS, agent__client=ClientKind.BROWSER).order_by()
    found = jobs.Job.objects.filter(pk__in=running.values("pk"), state="running").aggregate(
        browsers=Count("owner", distinct=True), contexts=Count("pk")
    )
    return int(found["browsers"]), int(found["contexts"])
