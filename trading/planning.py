"""What the clock starts: daily imports, and the digests of last week."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import jobs
from trading import services, venues
from trading.clock import now, week_of
from trading.models import BrokerConnection, Trade
from trading.payloads import PlanDigests, PlanImports

OVERLAP = timedelta(days=1)
REREAD = timedelta(days=30)
EVERY = timedelta(days=7)
"""How often 30 days are read again: a late reversal has the trade time of its fill."""


def plan_imports(ctx: jobs.Context, payload: PlanImports) -> dict[str, Any]:
    """Enqueue an import for every active link that wants one a day."""
    moment = now()
    links = BrokerConnection.objects.filter(
        status=BrokerConnection.Status.ACTIVE, is_daily=True, user__is_active=True
    )
    count = 0
    for link in links.iterator(chunk_size=500):
        ctx.checkpoint()
        if not venues.is_on(link.broker):
            continue
        is_due = link.reread_at is None or moment - link.reread_at >= EVERY
        since = link.imported_at - OVERLAP if link.imported_at else moment - REREAD
        # A link that was paused for months has a longer way to catch up.
        services.start_import(link, min(since, moment - REREAD) if is_due else since, by="schedule")
        if is_due:
            BrokerConnection.objects.filter(pk=link.pk).update(reread_at=moment)
        count += 1
    return {"imports": count}


def plan_digests(ctx: jobs.Context, payload: PlanDigests) -> dict[str, Any]:
    """Enqueue the digest of the week before this one for every user with trades."""
    end = week_of(now()).date()
    start = end - timedelta(days=7)
    users = Trade.objects.filter(user__is_active=True).order_by("user_id")
    count = 0
    for user in users.values_list("user_id", flat=True).distinct().iterator():
        ctx.checkpoint()
        services.enqueue_digest(user, start, end)
        count += 1
    return {"digests": count}
