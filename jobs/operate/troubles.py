"""What somebody should look at, found cheaply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs import conf, registry
from jobs.engine import closures, rq, sql
from jobs.engine.closures import Stop
from jobs.operate import services
from jobs.operate.depths import Depth
from jobs.operate.pulse import Pulse
from jobs.operate.reads import Count
from jobs.principals import Principal, Scope

SHOWN = 8
JOBS = 5
"""This many jobs that a worker held are named."""
OLD_TRANSACTION = 60.0
"""Seconds after which an open transaction slows everything down."""
NEWEST = 2000
"""Among this many of the newest attempts those are looked for that were lost with their worker."""
DOUBTS = 100
"""So far effects in doubt are counted."""


@dataclass(frozen=True, slots=True)
class Held:
    """A job that a silent worker runs, or that ran on a worker that was lost."""

    id: UUID
    kind: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that somebody should look at; ``subject`` names the queue, worker or scope.

    The text is English whatever the reader's language is: it is for programs and records. What a
    page needs to say the same in its own words stands beside it.
    """

    code: str
    text: str
    subject: str = ""
    since: datetime | None = None
    """Since when it is so, or when it happened."""
    count: Count | None = None
    """How many it concerns."""
    why: str = ""
    """The error behind it."""
    stop: Stop | None = None
    """The pause or the blackout."""
    shares: tuple[float, float] | None = None
    """Of failures: their share of the last attempts, and the usual one."""
    jobs: tuple[Held, ...] = ()
    """What the worker held."""


@dataclass(slots=True)
class Notes:
    """What the tables say beside the jobs, as far as it lies within a scope."""

    at: datetime
    stops: list[Stop] = field(default_factory=list)
    """The pauses and blackouts in force, by scope."""
    silent: dict[str, datetime] = field(default_factory=dict)
    """Workers that are not heard of now."""
    lost: dict[str, datetime] = field(default_factory=dict)
    """Workers that were lost within the last hour; none of the silent ones."""
    held: dict[str, list[Held]] = field(default_factory=dict)
    """What these workers held, as far as it may be seen."""
    circuits: dict[str, tuple[datetime | None, str]] = field(default_factory=dict)
    """Circuit breakers that are not closed: since when, and the failure that opened them."""
    late: dict[str, tuple[datetime | None, str]] = field(default_factory=dict)
    """Schedules that should have made a job: its slot, and the error that keeps them from it."""
    doubts: int = 0
    """Effects that may or may not have happened."""
    told_at: datetime | None = None
    """Since when the oldest event waits."""
    stuck: bool = False
    """Whether events are refused, or parked."""
    transaction_at: datetime | None = None
    """Since when the oldest transaction is open."""
    holders: list[tuple[str, str, datetime]] = field(default_factory=list)
    """Processes that do the platform's own work, as ``services`` reads them."""


_GONE = """(dead_at IS NULL AND until <= jobs_clock())
    OR (dead_at > jobs_clock() - interval '1 h' AND until < dead_at)"""
_PLACE = "j.tenant || E'\\x1f' || j.queue"
_READ = f"""
(SELECT 'worker', worker, '', bool_or(dead_at IS NULL)::int::bigint,
    max(coalesce(dead_at, until)), array_agg(DISTINCT q), '', ''
  FROM jobs_lease LEFT JOIN LATERAL unnest(queues) q ON true
  WHERE {_GONE} GROUP BY worker ORDER BY 5 DESC LIMIT {SHOWN})
UNION ALL (SELECT 'held', l.worker, j.id::text, 0, NULL, NULL, j.kind, {_PLACE}
  FROM (SELECT * FROM jobs_lease WHERE {_GONE} ORDER BY until DESC LIMIT 50) l
  CROSS JOIN LATERAL (SELECT id, kind, tenant, queue FROM jobs_job WHERE queue = ANY (l.queues)
    AND state IN ('queued', 'running') AND state = 'running' AND owner = l.owner
    ORDER BY id LIMIT {JOBS}) j)
UNION ALL (SELECT 'held', a.worker, j.id::text, 0, NULL, NULL, j.kind, {_PLACE}
  FROM (SELECT job_id, worker, outcome, ended_at FROM jobs_attempt ORDER BY id DESC
    LIMIT {NEWEST}) a JOIN jobs_job j ON j.id = a.job_id
  WHERE a.outcome = 'lost' AND a.ended_at > jobs_clock() - interval '1 h' LIMIT 100)
UNION ALL (SELECT 'schedule', name, error, 0, next_slot, NULL, kind,
    coalesce(options->>'tenant', '') || E'\\x1f' || coalesce(options->>'queue', '')
  FROM jobs_schedule WHERE enabled AND (error <> ''
    OR (paused_at IS NULL AND next_slot < jobs_clock() - %s * interval '1 s'))
  ORDER BY name LIMIT 200)
UNION ALL (SELECT 'lag', '', '', 0, occurred_at, NULL, '', ''
  FROM jobs_outbox WHERE state = 'pending' AND NOT held ORDER BY id LIMIT 1)
UNION ALL (SELECT 'circuit', name, last_error, 0, opened_at, NULL, '', '' FROM jobs_breaker
  WHERE state <> 'closed' ORDER BY length(name), name LIMIT {SHOWN})
UNION ALL (SELECT 'stuck', '', '', 0, NULL, NULL, '', '' FROM jobs_outbox
  WHERE state IN ('failed', 'parked') LIMIT 1)
UNION ALL (SELECT 'doubts', '', '', count(*), NULL, NULL, '', '' FROM (SELECT 1 FROM jobs_effect
  WHERE state = 'in_doubt' LIMIT {DOUBTS + 1}) AS e)
UNION ALL (SELECT 'transaction', '', '', 0, jobs_clock() - (clock_timestamp() - xact_start), NULL,
    '', '' FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()
    AND backend_type = 'client backend' AND datname = current_database()
  ORDER BY xact_start LIMIT 1)
UNION ALL SELECT what, name, '', 0, at, NULL, '', '' FROM ({services.READ}) s
  WHERE what = 'holder'
"""  # noqa: S608 - constants


def read(scope: Scope) -> Notes:
    """What lies within the scope; what concerns everybody only for those who see everything."""
    at, stops = closures.look()
    notes = Notes(at, [stop for stop in stops if covers(scope, stop.scope)])
    for row in sql.rows(_READ, [60 + 4 * conf.settings().TICK]):
        _take(notes, row, scope)
    return notes


def _take(notes: Notes, row: tuple[Any, ...], scope: Scope) -> None:
    what, name, text, number, at, queues, kind, place = row
    whole = scope.is_everything
    tenant, _separator, queue = place.partition("\x1f")
    if what == "worker" and scope.tenants is None:
        if scope.queues is None or scope.queues & set(queues):
            (notes.silent if number else notes.lost)[name] = at
    elif what == "held" and scope.covers(tenant, queue):
        notes.held.setdefault(name, []).append(Held(UUID(text), kind))
    elif what == "schedule":
        handler = registry.find(kind)
        if scope.covers(tenant, queue or (handler.queue if handler else "")):
            notes.late[name] = at, text
    elif whole:
        _take_of_everybody(notes, row)


def _take_of_everybody(notes: Notes, row: tuple[Any, ...]) -> None:
    what, name, text, number, at, *_rest = row
    if what == "circuit":
        notes.circuits[name] = at, text
    elif what == "lag":
        notes.told_at = at
    elif what == "stuck":
        notes.stuck = True
    elif what == "doubts":
        notes.doubts = int(number)
    elif what == "transaction":
        notes.transaction_at = at
    elif what == "holder":
        notes.holders.append((what, name, at))


def covers(scope: Scope, closed: str) -> bool:
    """Whether what is closed is within the scope alone, so that the reason may be shown there."""
    what, _colon, name = closed.partition(":")
    if what == "queue":
        return scope.tenants is None and scope.covers(queue=name)
    if what == "tenant":
        return scope.is_everything or (scope.tenants is not None and name in scope.tenants)
    return scope.is_everything


def problems(
    notes: Notes, depths: Sequence[Depth], going: Pulse, who: Principal
) -> Iterator[Problem]:
    """What should be looked at, by those who may see it."""
    if who.may("view_queue"):
        yield from _of_queues(notes, depths, going)
    if who.may("view_breaker"):
        for name, (at, why) in notes.circuits.items():
            since = f" since {at:%H:%M:%S}" if at else ""
            yield Problem("circuit", f"Circuit {name} is open{since}: {why}", name, at, why=why)
    if who.may("view_worker"):
        yield from _of_workers(notes, who)
        if who.scope.is_everything:
            yield from _of_platform(notes)
    if who.may("view_effect") and notes.doubts:
        count = Count(min(notes.doubts, DOUBTS), notes.doubts > DOUBTS)
        yield Problem("doubt", f"Effects that may or may not have happened: {count}", count=count)
    if who.may("view_schedule"):
        for name, (at, error) in list(notes.late.items())[:SHOWN]:
            text = error or "Its time has passed and no scheduler has made its job"
            yield Problem("schedule", f"{name}: {text}", name, at, why=error)
    if who.may("view_outbox"):
        lag = _seconds(notes.at, notes.told_at)
        if lag > conf.settings().OUTBOX_LAG_TARGET:
            yield Problem("outbox_lag", f"Events wait for {lag:.0f} s", since=notes.told_at)
        if notes.stuck:
            yield Problem("outbox_stuck", "Events are refused by a subscriber, or parked")


def _of_queues(notes: Notes, depths: Sequence[Depth], going: Pulse) -> Iterator[Problem]:
    closed = {stop.scope for stop in notes.stops}
    for depth in depths:
        if f"queue:{depth.name}" in closed:
            continue  # it is shown below that, and why, nothing of it starts
        if depth.waiting.value and not depth.slots:
            text = f"Jobs wait in {depth.name} and no worker takes them"
            yield Problem("no_worker", text, depth.name, depth.oldest_at, depth.waiting)
        waited = _seconds(notes.at, depth.overdue_at)
        if waited > conf.settings().WAIT_TARGET:
            text = f"A job has waited in {depth.name} for {waited:.0f} s"
            yield Problem("long_wait", text, depth.name, depth.overdue_at)
    for stop in notes.stops:
        text = f"Nothing starts in {stop.scope}: {stop.words}"
        yield Problem("closed", text, stop.scope, stop.since, stop=stop)
    if going.rate is not None and going.rate > max(0.05, 3 * going.usual):
        now, usual = f"{100 * going.rate:.0f} %", f"{100 * going.usual:.0f} %"
        text = f"{now} of the last attempts failed; usually it is {usual}"
        yield Problem("failures", text, shares=(going.rate, going.usual))


def _of_workers(notes: Notes, who: Principal) -> Iterator[Problem]:
    for workers, code, words in (
        (notes.silent, "silent_worker", "has not been heard of since"),
        (notes.lost, "lost_worker", "was lost at"),
    ):
        for worker, at in workers.items():
            held = tuple(notes.held.get(worker, ())[:JOBS]) if who.may("view_job") else ()
            text = f"{worker} {words} {at:%H:%M:%S}"
            if held:
                text += f"; it held {', '.join(f'{job.kind} {job.id}' for job in held)}"
            yield Problem(code, text, worker, at, jobs=held)


def _of_platform(notes: Notes) -> Iterator[Problem]:
    seconds = _seconds(notes.at, notes.transaction_at)
    if seconds > OLD_TRANSACTION:
        text = f"A transaction has been open for {seconds:.0f} s, which slows every claim down"
        yield Problem("old_transaction", text, since=notes.transaction_at)
    heard: list[str] = []
    try:
        heard = rq.live_dispatchers()
        if not heard:
            yield Problem("no_dispatcher", "No dispatcher lives: nothing is sent to workers")
    except rq.Unavailable:
        yield Problem("redis", "Redis does not answer: jobs wait until it does")
    silent = [s.name for s in services.told(notes.holders, notes.at, heard) if s.state == "silent"]
    if "schedules" in silent:
        yield Problem("no_scheduler", "No scheduler is running; jobs of schedules are not created.")
    if "relay" in silent:
        yield Problem("no_relay", "No relay is running; events wait in the outbox.")


def _seconds(now: datetime, since: datetime | None) -> float:
    return max(0.0, (now - since).total_seconds()) if since else 0.0
