"""What the API, the admin, the schedules and code call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction

import jobs
from trading import events, scoring, venues
from trading.clock import day_of, iso, now
from trading.config import HORIZON_LIMIT, IMPORT_DAYS
from trading.errors import Refused
from trading.models import (
    BrokerConnection,
    ImportRun,
    Simulation,
    Trade,
)
from trading.payloads import (
    DigestJob,
    ImportJob,
    SimJob,
    digest_key,
    import_key,
    simulation_key,
    snapshots_of,
    tenant_of,
)

if TYPE_CHECKING:
    from jobs.acts import By

EARLIEST = datetime(2010, 1, 1, tzinfo=UTC)


# ---- jobs


def start_import(row: BrokerConnection, since: datetime | None = None, *, by: By) -> UUID:
    """Enqueue an import of the link, and its run; return the id of the job.

    The same import that has not ended is returned instead of another.
    """
    if not venues.is_on(row.broker):
        raise Refused("VENUE_OFF")
    moment = now()
    since = since or moment - timedelta(days=IMPORT_DAYS)
    if since > moment:
        raise Refused("INVALID", "must not lie in the future", "since")
    if since < EARLIEST:
        raise Refused("INVALID", f"must not lie before {EARLIEST:%Y-%m-%d}", "since")
    day = day_of(since)
    with transaction.atomic():
        made = jobs.enqueue(
            ImportJob(userId=row.user_id, sinceIso=iso(day), broker=row.broker),
            tenant=tenant_of(row.user_id),
            unique=jobs.Unique(import_key(row.user_id, day, row.broker)),
            exclusive=f"trading:import:{row.pk}",
        )
        if not made.deduplicated:
            ImportRun.objects.create(id=made.id, user_id=row.user_id, connection=row, since=day)
            events.audit("import_start", "import", made.id, row.user_id, by=by, since=iso(day))
    return made.id


def rescore(user: int, since: datetime | None = None) -> UUID:
    """Enqueue a scoring of all trades, or of those since a moment."""
    oldest = Trade.objects.filter(user_id=user).order_by("ts").values_list("ts", flat=True).first()
    if oldest is None:
        raise Refused("NOT_FOUND", "there are no trades yet")
    if since is not None and since > now():
        raise Refused("INVALID", "must not lie in the future", "since")
    with transaction.atomic():
        return scoring.enqueue(user, max(oldest, since) if since else oldest)


def enqueue_digest(user: int, start: date, end: date) -> UUID:
    """Enqueue the digest of a week."""
    if start.weekday() != 0 or end - start != timedelta(days=7):
        raise Refused("BAD_PERIOD", field="start")
    return jobs.enqueue(
        DigestJob(userId=user, periodStart=start.isoformat(), periodEnd=end.isoformat()),
        tenant=tenant_of(user),
        unique=jobs.Unique(digest_key(user, start, end)),
        exclusive=snapshots_of(user),
    ).id


@dataclass(frozen=True, slots=True)
class Simulated:
    """A comparison, and the job that refreshes it if it is not current."""

    row: Simulation
    is_fresh: bool
    job_id: UUID | None = None


def simulate(user: int, trade_id: int, days: int) -> Simulated:
    """Return a fresh comparison, or what there is while a job computes it."""
    if not 1 <= days <= HORIZON_LIMIT:
        raise Refused("INVALID", f"must be 1 to {HORIZON_LIMIT}", "horizonDays")
    trade = Trade.objects.filter(pk=trade_id, user_id=user).first()
    if trade is None:
        raise Refused("NOT_FOUND", "there is no such trade", "tradeId")
    if not trade.is_counted:
        raise Refused("NOT_COUNTED", field="tradeId")
    with transaction.atomic():
        wanted: dict[str, Any] = {"user_id": user, "trade": trade, "horizon_days": days}
        row = Simulation.objects.filter(**wanted).first()
        if row is None:
            row, _ = Simulation.objects.get_or_create(**wanted, source=trade.broker)
        if row.fresh_until is not None and row.fresh_until > now():
            return Simulated(row, is_fresh=True)
        made = jobs.enqueue(
            SimJob(userId=user, tradeId=trade_id, horizonDays=days),
            tenant=tenant_of(user),
            unique=jobs.Unique(simulation_key(user, trade_id, days)),
        )
        if not made.deduplicated:
            Simulation.objects.filter(pk=row.pk).update(job_id=made.id, error="")
            row.job_id, row.error = made.id, ""
    return Simulated(row, is_fresh=False, job_id=made.id)
