"""What the API, the admin, the schedules and code call."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import IntegrityError, transaction

import jobs
from jobs import acts
from trading import events, market, scoring, states
from trading.clients import coinbase, signing
from trading.clock import day_of, iso, now
from trading.config import HORIZON_LIMIT, IMPORT_DAYS
from trading.errors import KeyRefused, Limited, Refused, VenueError
from trading.models import (
    Broker,
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
from trading.permissions import USE

if TYPE_CHECKING:
    from jobs.acts import By

OPEN = (BrokerConnection.Status.ACTIVE, BrokerConnection.Status.PAUSED)
EARLIEST = datetime(2010, 1, 1, tzinfo=UTC)


# ---- links


def read_rights(key_name: str, secret: str, *, may_trade: bool) -> coinbase.Rights:
    """Ask the venue what a key may do; raise Refused for one that must not be linked.

    Calls the venue: use it outside of transactions.
    """
    if not key_name.strip() or len(key_name) > 300:
        raise Refused("INVALID", "must have 1 to 300 characters", "keyName")
    if not secret.strip() or len(secret) > 4000:
        raise Refused("INVALID", "must have 1 to 4000 characters", "secret")
    signing.load_key(secret)
    try:
        found = coinbase.rights(coinbase.Key(key_name, secret))
    except KeyRefused as error:
        raise Refused("KEY_REFUSED" if error.code == "LINK_AGAIN" else error.code) from None
    except Limited as error:
        raise Refused("VENUE_LIMITED", retry_after=error.seconds) from None
    except VenueError as error:
        raise Refused(error.code) from None
    if found.can_transfer:
        raise Refused("KEY_CAN_TRANSFER")
    if not found.can_view:
        raise Refused("RIGHTS_MISSING")
    if found.can_trade and not may_trade:
        raise Refused("KEY_CAN_TRADE", field="mayTrade")
    return found


def link(
    user: int, key_name: str, secret: str, rights: coinbase.Rights, *, by: By, is_daily: bool = True
) -> BrokerConnection:
    """Store a link whose rights were read."""
    made = BrokerConnection(
        id=uuid.uuid4(), user_id=user, broker=Broker.COINBASE, key_name=key_name.strip(),
        secret=secret.strip(), can_trade=rights.can_trade, is_daily=is_daily,
    )  # fmt: skip
    with acts.on(
        "broker_linked", kind="link", id=made.pk, permission=USE, by=by,
        place=acts.Place(tenant_of(user)),
    ) as act:  # fmt: skip
        try:
            with transaction.atomic():
                made.save(force_insert=True)
        except IntegrityError:
            raise Refused(
                "CONFLICT", "an account of this venue is linked; revoke it first"
            ) from None
        act.note(broker=made.broker, can_trade=rights.can_trade)
    return made


def choose_link(user: int, broker: str = "") -> BrokerConnection:
    """Return the user's link to that venue, or the only one; raise Refused."""
    rows = BrokerConnection.objects.filter(user_id=user, status__in=OPEN)
    found = list(rows.filter(broker=broker) if broker else rows)
    if not found:
        if broker:
            raise Refused("NO_LINK", "no account of this venue is linked", "broker")
        raise Refused("NO_LINK")
    if len(found) > 1:
        named = ", ".join(sorted(row.broker for row in found))
        raise Refused("SEVERAL_LINKS", f"name one of the linked accounts: {named}", "broker")
    if found[0].status == BrokerConnection.Status.PAUSED:
        raise Refused("LINK_PAUSED")
    return found[0]


# ---- jobs


def start_import(row: BrokerConnection, since: datetime | None = None, *, by: By) -> UUID:
    """Enqueue an import of the link, and its run; return the id of the job.

    The same import that has not ended is returned instead of another.
    """
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
        row, _ = Simulation.objects.get_or_create(
            user_id=user, trade=trade, horizon_days=days, source=market.SOURCE
        )
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


def revoke_link(row: BrokerConnection, *, by: str, why: str) -> None:
    """Revoke a link and erase its secrets, in the caller's transaction."""
    states.link.move(row, BrokerConnection.Status.REVOKED, by=by, why=why)
    BrokerConnection.objects.filter(pk=row.pk).update(key_name=None, secret=None)
