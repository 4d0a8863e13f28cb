"""The first page: what is wrong, how much waits and runs, how it goes, who did what.

Nothing here reads finished jobs: what has not ended is counted along partial indexes, up to caps,
and the rest by the statistics of the minute. What somebody lacks the permission for, or what cannot
be shown for the part of the platform that the caller sees, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.engine import closures, sql
from jobs.engine.closures import Stop
from jobs.errors import Denied
from jobs.operate import depths, pulse, reads, troubles, workers
from jobs.operate.charts import Deploy, KindStats, Throughput, kind_stats, mark_deploy, throughput
from jobs.operate.depths import Depth
from jobs.operate.reads import Count
from jobs.operate.troubles import Problem
from jobs.operate.workers import Seen
from jobs.principals import By, Principal, Scope, principal

__all__ = [
    "Deploy", "KindStats", "Overview", "Problem", "Throughput", "as_data", "kind_stats",
    "mark_deploy", "overview", "throughput",
]  # fmt: skip
SHOWN = 8
NEWEST = 2000
"""Causes are counted among this many open dead letters."""
LETTERS = 10_000
"""So far open dead letters are counted."""
BATCHES = 500
"""Among this many of the newest batches those are looked for that are not done."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    name: str
    paused: str
    """Why nothing starts; empty while it is open."""
    depth: Depth
    limit: int | None
    spark: tuple[int, ...]
    """Attempts that ended, by steps of six minutes."""
    stops: tuple[Stop, ...] = ()
    """The pauses and blackouts of the queue itself."""


@dataclass(frozen=True, slots=True)
class CauseRow:
    fingerprint: str
    summary: str
    count: Count
    last_at: datetime


@dataclass(frozen=True, slots=True)
class BatchRow:
    id: UUID
    name: str
    total: int | None
    succeeded: int
    failed: int
    ended: int


@dataclass(frozen=True, slots=True)
class Action:
    at: datetime
    by: str
    action: str
    target: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything of the first page; a count that is capped says so."""

    at: datetime
    problems: tuple[Problem, ...]
    tiles: Mapping[str, Count]
    """``waiting running scheduled retrying dead``, and of the last hour ``done failed``, which are
    missing for callers who see only some tenants."""
    queues: tuple[QueueRow, ...]
    workers: tuple[Seen, ...]
    causes: tuple[CauseRow, ...]
    batches: tuple[BatchRow, ...]
    actions: tuple[Action, ...]


def overview(*, by: By, lists: bool = True) -> Overview:
    """The first page, as ``by`` may see it; its four lists may be left out."""
    who = principal(by)
    scope = who.scope
    whole = scope.tenants is None
    with reads.bounded():
        notes = troubles.read(scope)
        found = depths.by_queue(scope.queues) if whole else [depths.within(scope)]
        going = pulse.read(notes.at, [d.name for d in found]) if whole else pulse.NOTHING
        rows = _queues(notes.stops, found, going) if whole and who.may("view_queue") else ()
        return Overview(
            notes.at,
            (
                *troubles.problems(notes, [r.depth for r in rows], going, who),
                *_of_apps(who),
            ),
            _tiles(found, going, scope, whole) if who.may("view_job") else {},
            rows,
            tuple(workers.workers(by=who)) if lists and who.may("view_worker") and whole else (),
            _causes(scope) if lists and who.may("view_deadletter") else (),
            _batches(scope) if lists and who.may("view_batch") and scope.queues is None else (),
            _actions(scope) if lists and who.may("view_audit") else (),
        )


def _of_apps(who: Principal) -> Iterator[Problem]:
    from jobs import problems

    yield from problems.found(who)


def queues(*, by: By, name: str | None = None) -> tuple[QueueRow, ...]:
    """Return the queues as ``by`` may see them, or the one of this name if there is one."""
    who = principal(by)
    scope = who.scope
    if not who.may("view_queue"):
        raise Denied("view_queue")
    if scope.tenants is not None or (name is not None and not scope.covers(queue=name)):
        return ()
    with reads.bounded():
        now, stops = closures.look()
        found = depths.by_queue(scope.queues if name is None else frozenset({name}))
        return _queues(stops, found, pulse.read(now, [d.name for d in found], usual=False))


def _queues(
    stops: Sequence[Stop], found: Sequence[Depth], going: pulse.Pulse
) -> tuple[QueueRow, ...]:
    rows = []
    for depth in found:
        own = tuple(stop for stop in stops if stop.scope == f"queue:{depth.name}")
        why = "; ".join(stop.words for stop in own)
        spark = going.sparks.get(depth.name, ())
        rows.append(QueueRow(depth.name, why, depth, depth.limit, spark, own))
    return tuple(rows)


def _tiles(
    found: Sequence[Depth], going: pulse.Pulse, scope: Scope, whole: bool
) -> dict[str, Count]:
    tiles = depths.totals(found)
    tiles["dead"] = _dead(scope)
    return {**tiles, "done": Count(going.done), "failed": Count(going.failed)} if whole else tiles


def _within(scope: Scope, *columns: str) -> tuple[str, list[Any]]:
    """The condition on a table that has these columns of a job."""
    seen = {"tenant": scope.tenants, "queue": scope.queues}
    parts = [(name, names) for name in columns if (names := seen[name]) is not None]
    text = " AND ".join(f"{name} = ANY(%s::text[])" for name, _ in parts)
    return text or "true", [sorted(names) for _, names in parts]


def _dead(scope: Scope) -> Count:
    condition, values = _within(scope, "tenant", "queue")
    [(read, seen)] = sql.rows(
        f"SELECT count(*), count(*) FILTER (WHERE {condition}) FROM (SELECT tenant, queue "  # noqa: S608
        "FROM jobs_deadletter WHERE state = 'open' LIMIT %s) AS s",
        [*values, LETTERS + 1],
    )
    return Count(min(seen, LETTERS), read > LETTERS)


def _causes(scope: Scope) -> tuple[CauseRow, ...]:
    condition, values = _within(scope, "tenant", "queue")
    # Counted among the newest only: there may be a million of one cause.
    statement = f"""
WITH newest AS (SELECT fingerprint, summary, opened_at, tenant, queue FROM jobs_deadletter
  WHERE state = 'open' ORDER BY opened_at DESC, id DESC LIMIT %s)
SELECT fingerprint, (array_agg(summary ORDER BY opened_at DESC))[1], count(*), max(opened_at),
  (SELECT count(*) FROM newest) FROM newest WHERE {condition}
GROUP BY 1 ORDER BY 3 DESC, 4 DESC LIMIT %s
"""  # noqa: S608
    return tuple(
        CauseRow(fingerprint, summary, Count(number, total >= NEWEST), last)
        for fingerprint, summary, number, last, total in sql.rows(
            statement, [NEWEST, *values, SHOWN]
        )
    )


def _batches(scope: Scope) -> tuple[BatchRow, ...]:
    condition, values = _within(scope, "tenant")
    return tuple(
        BatchRow(*row)
        for row in sql.rows(
            "SELECT id, name, total, succeeded, failed, succeeded + failed + cancelled + expired "  # noqa: S608
            "FROM (SELECT * FROM jobs_batch ORDER BY created_at DESC, id DESC LIMIT %s) b "
            f"WHERE state <> 'done' AND {condition} ORDER BY created_at DESC, id DESC LIMIT %s",
            [BATCHES, *values, SHOWN],
        )
    )


def _actions(scope: Scope) -> tuple[Action, ...]:
    condition, values = _within(scope, "tenant", "queue")
    return tuple(
        Action(*row)
        for row in sql.rows(
            "SELECT at, actor, action, target_id, outcome FROM (SELECT * FROM jobs_audit "  # noqa: S608
            f"ORDER BY at DESC, id DESC LIMIT 2000) a WHERE {condition} "
            "ORDER BY at DESC, id DESC LIMIT %s",
            [*values, SHOWN],
        )
    )


def as_data(found: Any) -> Any:
    """The same for JSON: dataclasses as objects, moments and ids as text."""
    if is_dataclass(found) and not isinstance(found, type):
        found = asdict(found)
    if isinstance(found, Mapping):
        return {key: as_data(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [as_data(value) for value in found]
    if isinstance(found, datetime):
        return found.isoformat()
    return str(found) if isinstance(found, UUID) else found
