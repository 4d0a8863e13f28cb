"""What somebody should look at, found cheaply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobs import conf, registry
from jobs.engine import rq, sql
from jobs.operate import services
from jobs.operate.depths import Depth
from jobs.operate.pulse import Pulse
from jobs.principals import Principal, Scope

SHOWN = 8
CLOSURES = 1000
OLD_TRANSACTION = 60.0
"""Seconds after which an open transaction slows everything down."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that somebody should look at; ``subject`` names the queue, worker or scope.

    The text is English whatever the reader's language is: it is for programs and records.
    """

    code: str
    text: str
    subject: str = ""


@dataclass(slots=True)
class Notes:
    """What the tables say beside the jobs, as far as it lies within a scope."""

    at: datetime
    closures: dict[str, str] = field(default_factory=dict)
    """Why scopes are closed, by scope."""
    limits: dict[str, int] = field(default_factory=dict)
    """How many may run at once, by queue."""
    silent: dict[str, datetime] = field(default_factory=dict)
    """Workers that are not heard of now."""
    lost: dict[str, datetime] = field(default_factory=dict)
    """Workers that were lost within the last hour; none of the silent ones."""
    late: dict[str, str] = field(default_factory=dict)
    """Schedules that should have made a job, and the error that keeps them from it."""
    lag: float = 0.0
    """Seconds for which the oldest event waits."""
    stuck: bool = False
    """Whether events are refused, or parked."""
    transaction: float = 0.0
    """Seconds for which the oldest transaction is open."""
    holders: list[tuple[str, str, datetime]] = field(default_factory=list)
    """Processes that do the platform's own work, as ``services`` reads them."""


_READ = f"""
(SELECT 'now', '', '', NULL::float8, jobs_clock(), NULL::text[], '', '')
UNION ALL (SELECT 'closed', scope, why, 0, NULL, NULL, '', '' FROM jobs_closure
  WHERE until IS NULL OR until > jobs_clock() ORDER BY scope LIMIT {CLOSURES})
UNION ALL (SELECT 'limit', scope, '', at_once, NULL, NULL, '', '' FROM jobs_limiter
  WHERE starts_with(scope, 'queue:') AND at_once IS NOT NULL ORDER BY scope LIMIT {CLOSURES})
UNION ALL (SELECT 'worker', worker, '', bool_or(dead_at IS NULL)::int,
    max(coalesce(dead_at, until)), array_agg(DISTINCT q), '', ''
  FROM jobs_lease LEFT JOIN LATERAL unnest(queues) q ON true
  WHERE (dead_at IS NULL AND until <= jobs_clock())
    OR (dead_at > jobs_clock() - interval '1 h' AND until < dead_at)
  GROUP BY worker ORDER BY 5 DESC LIMIT {SHOWN})
UNION ALL (SELECT 'schedule', name, error, 0, NULL, NULL, kind,
    coalesce(options->>'tenant', '') || E'\\x1f' || coalesce(options->>'queue', '')
  FROM jobs_schedule WHERE enabled AND (error <> ''
    OR (paused_at IS NULL AND next_slot < jobs_clock() - %s * interval '1 s'))
  ORDER BY name LIMIT 200)
UNION ALL (SELECT 'lag', '', '', extract(epoch FROM jobs_clock() - occurred_at), NULL, NULL, '', ''
  FROM jobs_outbox WHERE state = 'pending' AND NOT held ORDER BY id LIMIT 1)
UNION ALL (SELECT 'stuck', '', '', 0, NULL, NULL, '', '' FROM jobs_outbox
  WHERE state IN ('failed', 'parked') LIMIT 1)
UNION ALL (SELECT 'transaction', '', '', extract(epoch FROM clock_timestamp() - xact_start), NULL,
    NULL, '', '' FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()
    AND backend_type = 'client backend' AND datname = current_database()
  ORDER BY xact_start LIMIT 1)
UNION ALL SELECT what, name, '', 0, at, NULL, '', '' FROM ({services.READ}) s
  WHERE what = 'holder'
"""  # noqa: S608 - constants


def read(scope: Scope) -> Notes:
    """What lies within the scope; what concerns everybody only for those who see everything."""
    rows = sql.rows(_READ, [60 + 4 * conf.settings().TICK])
    notes = Notes(next(row[4] for row in rows if row[0] == "now"))
    for row in rows:
        _take(notes, row, scope)
    return notes


def _take(notes: Notes, row: tuple[Any, ...], scope: Scope) -> None:
    what, name, text, number, at, queues, kind, place = row
    whole = scope.is_everything
    if what == "closed" and covers(scope, name):
        notes.closures[name] = text
    elif what == "limit":
        notes.limits[name.removeprefix("queue:")] = int(number)
    elif what == "worker" and scope.tenants is None:
        if scope.queues is None or scope.queues & set(queues):
            (notes.silent if number else notes.lost)[name] = at
    elif what == "schedule":
        tenant, _separator, queue = place.partition("\x1f")
        handler = registry.find(kind)
        if scope.covers(tenant, queue or (handler.queue if handler else "")):
            notes.late[name] = text
    elif what == "lag" and whole:
        notes.lag = float(number)
    elif what == "stuck" and whole:
        notes.stuck = True
    elif what == "transaction" and whole:
        notes.transaction = float(number)
    elif what == "holder" and whole:
        notes.holders.append((what, name, at))


def covers(scope: Scope, closed: str) -> bool:
    """Whether what is closed is within the scope alone, so that the reason may be told there."""
    what, _colon, name = closed.partition(":")
    if what == "queue":
        return scope.tenants is None and scope.covers(queue=name)
    if what == "tenant":
        return scope.is_everything or (scope.tenants is not None and name in scope.tenants)
    return scope.is_everything


def problems(
    notes: Notes, depths: Sequence[Depth], going: Pulse, who: Principal
) -> Iterator[Problem]:
    """What should be looked at, by whoever may see it."""
    if who.may("view_queue"):
        yield from _of_queues(notes, depths, going)
    if who.may("view_worker"):
        yield from _of_workers(notes, who)
    if who.may("view_schedule"):
        for name, error in list(notes.late.items())[:SHOWN]:
            text = error or "Its time has passed and no scheduler has made its job"
            yield Problem("schedule", f"{name}: {text}", name)
    if who.may("view_outbox"):
        if notes.lag > conf.settings().OUTBOX_LAG_TARGET:
            text = f"Events wait for {notes.lag:.0f} s"
            yield Problem("outbox_lag", text)
        if notes.stuck:
            yield Problem("outbox_stuck", "Events are refused by a subscriber, or parked")


def _of_queues(notes: Notes, depths: Sequence[Depth], going: Pulse) -> Iterator[Problem]:
    for depth in depths:
        if depth.waiting.value and not depth.slots:
            text = f"Jobs wait in {depth.name} and no worker takes them"
            yield Problem("no_worker", text, depth.name)
        paused = f"queue:{depth.name}" in notes.closures
        if depth.oldest > conf.settings().WAIT_TARGET and not paused:
            text = f"A job has waited in {depth.name} for {depth.oldest:.0f} s"
            yield Problem("long_wait", text, depth.name)
    for scope, why in notes.closures.items():
        yield Problem("closed", f"Nothing starts in {scope}: {why}", scope)
    if going.rate is not None and going.rate > max(0.05, 3 * going.usual):
        now, usual = f"{100 * going.rate:.0f} %", f"{100 * going.usual:.0f} %"
        yield Problem("failures", f"{now} of the last attempts failed; usually it is {usual}")


def _of_workers(notes: Notes, who: Principal) -> Iterator[Problem]:
    for worker, at in notes.silent.items():
        text = f"{worker} has not been heard of since {at:%H:%M:%S}"
        yield Problem("silent_worker", text, worker)
    for worker, at in notes.lost.items():
        yield Problem("lost_worker", f"{worker} was lost at {at:%H:%M:%S}", worker)
    if not who.scope.is_everything:
        return
    if notes.transaction > OLD_TRANSACTION:
        seconds = f"{notes.transaction:.0f} s"
        text = f"A transaction has been open for {seconds}, which slows every claim down"
        yield Problem("old_transaction", text)
    heard: list[str] = []
    try:
        heard = rq.live_dispatchers()
        if not heard:
            yield Problem("no_dispatcher", "No dispatcher lives: nothing is sent to workers")
    except rq.Unavailable:
        yield Problem("redis", "Redis does not answer: jobs wait until it does")
    silent = [s.name for s in services.told(notes.holders, notes.at, heard) if s.state == "silent"]
    if "schedules" in silent:
        yield Problem("no_scheduler", "Nobody serves schedules: their jobs are not made.")
    if "relay" in silent:
        yield Problem("no_relay", "Nobody relays events: they wait in the outbox.")
