"""The first page: what is wrong, how much waits and runs, how it goes, who did what.

Nothing here reads finished jobs: queues by their partial indexes, up to caps, and the rest by the
statistics of the minute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.utils.translation import gettext as _

from jobs import conf
from jobs.engine import sql
from jobs.errors import InvalidOption
from jobs.metrics import numbers
from jobs.operate import reads, stats
from jobs.operate.reads import Count
from jobs.operate.search import Refused
from jobs.operate.stats import Point
from jobs.principals import By, principal

SPANS: Mapping[str, tuple[timedelta, timedelta]] = {
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "3h": (timedelta(hours=3), timedelta(minutes=2)),
    "24h": (timedelta(hours=24), timedelta(minutes=15)),
    "7d": (timedelta(days=7), timedelta(hours=1)),
}
"""How far back charts go, and the step of each."""
SPARK = (timedelta(hours=3), timedelta(minutes=6))
LONG_WAIT = 60.0
"""Seconds after which the oldest waiting job of a queue is a problem."""
LONG_LAG = 30.0
FEW = 20
"""Fewer attempts than these say nothing about a failure rate."""
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that somebody should look at; ``subject`` names the queue, worker or scope."""

    code: str
    text: str
    subject: str = ""


@dataclass(frozen=True, slots=True)
class QueueRow:
    name: str
    paused: str
    """Why nothing starts; empty while it is open."""
    waiting: Count
    oldest: float
    """Seconds that the longest waiting job has waited."""
    running: int
    limit: int | None
    scheduled: int
    retrying: int
    slots: int
    spark: tuple[int, ...]
    """Attempts that ended, by steps of six minutes."""


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
    queues: tuple[QueueRow, ...]
    causes: tuple[CauseRow, ...]
    batches: tuple[BatchRow, ...]
    actions: tuple[Action, ...]


def overview(*, by: By) -> Overview:
    """The first page, as ``by`` may see it.

    Its numbers are the whole platform's: who sees a part of the tenants only is Refused.
    """
    scope = principal(by).scope
    if scope.tenants is not None:
        raise Refused("view_queue")
    with reads.bounded():
        [(now,)] = sql.rows("SELECT jobs_clock()")
        found = numbers.read()[0]
        told = _Told(found)
        names = [n for n in told.queues if scope.covers(queue=n)]
        retrying, retrying_capped = _retrying()
        recent = stats.series(now - SPARK[0], now, step=SPARK[1], by="queue")
        hour = stats.series(now - timedelta(hours=1), now, by="queue")
        closures, limits = _scopes()
        rows = tuple(
            QueueRow(
                name,
                closures.get(f"queue:{name}", ""),
                reads.count(int(told.depth[name, "ready"]), numbers.MOST - 1),
                told.oldest[name],
                int(told.running[name]),
                limits.get(f"queue:{name}"),
                max(0, int(told.depth[name, "scheduled"]) - retrying[name]),
                retrying[name],
                int(told.slots[name]),
                tuple(p.ended for p in recent.get(name, ())),
            )
            for name in names
        )
        points = [p for name in names for p in hour.get(name, ())]
        return Overview(
            now,
            (
                *_problems(rows, told, closures),
                *_unusual(now, names, points),
                *_lost(),
                *_late_schedules(),
            ),
            _tiles(rows, told, points, retrying_capped),
            rows,
            _causes(scope.queues),
            _batches(),
            _actions() if scope.is_everything else (),
        )


class _Told:
    """The numbers of the metrics, by what they are about."""

    def __init__(self, found: Sequence[numbers.Number]) -> None:
        self.depth: dict[tuple[str, str], float] = defaultdict(float)
        self.oldest: dict[str, float] = defaultdict(float)
        self.running: dict[str, float] = defaultdict(float)
        self.slots: dict[str, float] = defaultdict(float)
        self.single: dict[str, float] = {}
        by_queue = {
            "jobs_oldest_wait_seconds": self.oldest,
            "jobs_running": self.running,
            "jobs_slots_live": self.slots,
        }
        for number in found:
            if number.name == "jobs_queue_depth":
                self.depth[number.labels[0], number.labels[1]] = number.value
            elif number.name in by_queue:
                by_queue[number.name][number.labels[0]] = number.value
            elif not number.labels:
                self.single[number.name] = number.value
        self.queues = sorted({queue for queue, _state in self.depth})


def _tiles(
    rows: Sequence[QueueRow], told: _Told, points: Sequence[Point], capped: bool
) -> dict[str, Count]:
    done = sum(p.counts.get("succeeded", 0) for p in points)
    failed = sum(p.counts.get("failed", 0) for p in points)
    letters = int(told.single["jobs_dead_letters_open"])
    return {
        "waiting": Count(sum(r.waiting.value for r in rows), any(r.waiting.capped for r in rows)),
        "running": Count(sum(r.running for r in rows)),
        "retrying": Count(sum(r.retrying for r in rows), capped),
        "scheduled": Count(sum(r.scheduled for r in rows), capped),
        "dead": reads.count(letters, numbers.MOST - 1),
        "done": Count(done),
        "failed": Count(failed),
    }


def _problems(
    rows: Sequence[QueueRow], told: _Told, closures: Mapping[str, str]
) -> Iterator[Problem]:
    for row in rows:
        if row.waiting.value and not row.slots:
            text = _("Jobs wait in %(queue)s and no worker takes them") % {"queue": row.name}
            yield Problem("no_worker", text, row.name)
        if row.oldest > LONG_WAIT and not row.paused:
            text = _("A job has waited in %(queue)s for %(seconds)d s") % {
                "queue": row.name,
                "seconds": row.oldest,
            }
            yield Problem("long_wait", text, row.name)
    lag = told.single["jobs_outbox_lag_seconds"]
    if lag > LONG_LAG:
        yield Problem("outbox_lag", _("Events wait for %(seconds)d s") % {"seconds": lag})
    if told.single["jobs_outbox_stuck"]:
        yield Problem("outbox_stuck", _("Events are refused by a subscriber, or parked"))
    if told.single["jobs_leases_lapsed"]:
        yield Problem("lapsed", _("A worker has not been heard of"))
    for scope, why in closures.items():
        yield Problem("closed", _("Nothing starts in %(scope)s: %(why)s") % {
            "scope": scope, "why": why,
        }, scope)  # fmt: skip


_DAY = """
SELECT coalesce(sum(count), 0)::bigint,
  coalesce(sum(count) FILTER (WHERE outcome <> 'succeeded'), 0)::bigint
FROM jobs_minute WHERE minute >= %s AND minute < %s AND queue = ANY(%s)
  AND outcome IN ('succeeded', 'failed', 'retried')
"""


def _unusual(now: datetime, names: Sequence[str], points: Sequence[Point]) -> Iterator[Problem]:
    """The failure rate of the last ten minutes beside that of the day."""
    recent = [p for p in points if p.at >= now - timedelta(minutes=10)]
    ended, bad = _sums(recent)
    if ended < FEW:
        return
    [(all_ended, all_bad)] = sql.rows(_DAY, [now - timedelta(hours=24), now, list(names)])
    usual = (all_bad - bad) / max(1, all_ended - ended)
    if bad / ended > max(0.05, 3 * usual):
        yield Problem(
            "failures",
            _("%(now)d %% of the last attempts failed; usually it is %(usual)d %%")
            % {"now": 100 * bad / ended, "usual": 100 * usual},
        )


def _sums(points: Sequence[Point]) -> tuple[int, int]:
    ended = sum(p.ended for p in points)
    return ended, ended - sum(p.counts.get("succeeded", 0) for p in points)


def _lost() -> Iterator[Problem]:
    for worker, at in sql.rows(
        "SELECT worker, max(dead_at) FROM jobs_lease WHERE dead_at > jobs_clock() - interval '1 h' "
        "AND until < dead_at GROUP BY worker ORDER BY 2 DESC LIMIT %s",
        [SHOWN],
    ):
        text = _("%(worker)s was lost at %(at)s") % {"worker": worker, "at": f"{at:%H:%M:%S}"}
        yield Problem("lost_worker", text, worker)


def _late_schedules() -> Iterator[Problem]:
    patience = 60 + 4 * conf.settings().TICK
    for name, error in sql.rows(
        "SELECT name, error FROM jobs_schedule WHERE enabled AND (error <> '' "
        "OR (paused_at IS NULL AND next_slot < jobs_clock() - %s * interval '1 s')) "
        "ORDER BY name LIMIT %s",
        [patience, SHOWN],
    ):
        text = error or _("Its time has passed and no scheduler has made its job")
        yield Problem("schedule", f"{name}: {text}", name)


_RETRYING = """
SELECT queue, count(*) FILTER (WHERE failures > 0), count(*) FROM (SELECT queue, failures
  FROM jobs_job WHERE state = 'pending' AND wait = 1 LIMIT %s) AS s GROUP BY queue
"""


def _retrying() -> tuple[dict[str, int], bool]:
    found = sql.rows(_RETRYING, [numbers.MOST])
    counted: dict[str, int] = defaultdict(int)
    for queue, number, _all in found:
        counted[queue] = number
    return counted, sum(row[2] for row in found) >= numbers.MOST


def _scopes() -> tuple[dict[str, str], dict[str, int]]:
    """Why scopes are closed now, and how many may run at once in each queue."""
    closures: dict[str, str] = {}
    limits: dict[str, int] = {}
    for what, scope, why, number in sql.rows(
        "(SELECT 'closed', scope, why, 0 FROM jobs_closure WHERE until IS NULL "
        "OR until > jobs_clock() ORDER BY scope LIMIT 1000) "
        "UNION ALL (SELECT 'limit', scope, '', at_once FROM jobs_limiter "
        "WHERE starts_with(scope, 'queue:') AND at_once IS NOT NULL LIMIT 1000)"
    ):
        if what == "closed":
            closures[scope] = why
        else:
            limits[scope] = number
    return closures, limits


# Counted among the newest only: there may be a million of one cause.
_CAUSES = """
SELECT fingerprint, (array_agg(summary ORDER BY opened_at DESC))[1], count(*), max(opened_at),
  (SELECT count(*) FROM newest) FROM newest WHERE %s::text[] IS NULL OR queue = ANY(%s)
GROUP BY 1 ORDER BY 3 DESC, 4 DESC LIMIT %s
"""
_NEWEST_LETTERS = """
WITH newest AS (SELECT fingerprint, summary, opened_at, queue FROM jobs_deadletter
  WHERE state = 'open' ORDER BY opened_at DESC, id DESC LIMIT 2000)
"""


def _causes(queues: frozenset[str] | None) -> tuple[CauseRow, ...]:
    some = None if queues is None else sorted(queues)
    return tuple(
        CauseRow(fingerprint, summary, Count(number, total >= 2000), last)
        for fingerprint, summary, number, last, total in sql.rows(
            _NEWEST_LETTERS + _CAUSES, [some, some, SHOWN]
        )
    )


def _batches() -> tuple[BatchRow, ...]:
    return tuple(
        BatchRow(*row)
        for row in sql.rows(
            "SELECT id, name, total, succeeded, failed, succeeded + failed + cancelled + expired "
            "FROM (SELECT * FROM jobs_batch ORDER BY created_at DESC, id DESC LIMIT 500) b "
            "WHERE state <> 'done' ORDER BY created_at DESC, id DESC LIMIT %s",
            [SHOWN],
        )
    )


def _actions() -> tuple[Action, ...]:
    return tuple(
        Action(*row)
        for row in sql.rows(
            "SELECT at, actor, action, target_id, outcome FROM jobs_audit "
            "ORDER BY at DESC, id DESC LIMIT %s",
            [SHOWN],
        )
    )


# ---- charts and marks


@dataclass(frozen=True, slots=True)
class Deploy:
    at: datetime
    version: str
    by: str


@dataclass(frozen=True, slots=True)
class Throughput:
    """How attempts ended, by steps, and what went live meanwhile."""

    points: tuple[Point, ...]
    deploys: tuple[Deploy, ...]


# Durations by bucket are most of a row; a chart of counts does not add them up.
_CHART = """
SELECT date_bin(%s, minute, %s), outcome, sum(count)::bigint FROM jobs_minute
WHERE minute >= %s AND minute < %s AND (%s::text IS NULL OR queue = %s) GROUP BY 1, 2
"""


def throughput(
    span: Literal["1h", "3h", "24h", "7d"] = "3h", *, by: By, queue: str | None = None
) -> Throughput:
    """The chart of the span; of one queue where it is named."""
    scope = principal(by).scope
    if span not in SPANS:
        raise InvalidOption("span", f"must be one of {', '.join(SPANS)}, got {span!r}")
    if scope.tenants is not None or (scope.queues is not None and queue not in scope.queues):
        raise Refused("view_queue")
    back, step = SPANS[span]
    with reads.bounded():
        [(now,)] = sql.rows("SELECT jobs_clock()")
        since = (now - back).replace(second=0, microsecond=0)
        counted: dict[datetime, dict[str, int]] = defaultdict(dict)
        for at, outcome, number in sql.rows(_CHART, [step, since, since, now, queue, queue]):
            counted[at][outcome] = number
        steps = range(-(-(now - since) // step))
        points = [
            Point(since + step * n, step.total_seconds(), counted[since + step * n]) for n in steps
        ]
        marks = sql.rows(
            "SELECT at, version, by FROM jobs_deploy WHERE at >= %s ORDER BY at DESC LIMIT 100",
            [now - back],
        )
    return Throughput(tuple(points), tuple(Deploy(*row) for row in reversed(marks)))


def mark_deploy(version: str, *, by: str = "") -> Deploy:
    """Charts show from now on that this version went live now."""
    if not isinstance(version, str) or not 1 <= len(version) <= 200 or "\x00" in version:
        raise InvalidOption("version", "must be a text of 1 to 200 characters")
    [row] = sql.rows(
        "INSERT INTO jobs_deploy (version, by) VALUES (%s, %s) RETURNING at, version, by",
        [version, by],
    )
    return Deploy(*row)


@dataclass(frozen=True, slots=True)
class KindStats:
    """How jobs of a kind went lately."""

    outcomes: tuple[str, ...]
    """States of the last ended jobs, oldest first."""
    p50: float | None
    p95: float | None


# Found among the newest jobs only; a kind that is rare shows fewer outcomes, or none.
_OUTCOMES = """
SELECT state FROM (SELECT kind, state, created_at, id FROM jobs_job
  ORDER BY created_at DESC, id DESC LIMIT 5000) AS j
WHERE kind = %s AND state IN ('succeeded', 'failed', 'cancelled', 'expired')
ORDER BY created_at DESC, id DESC LIMIT 50
"""


def kind_stats(kind: str, *, by: By) -> KindStats:
    """The last 50 outcomes of a kind, and how long its attempts took on the last day."""
    scope = principal(by).scope
    if not scope.is_everything:
        raise Refused("view_queue")
    with reads.bounded():
        [(now,)] = sql.rows("SELECT jobs_clock()")
        outcomes = [row[0] for row in sql.rows(_OUTCOMES, [kind])]
        [point] = stats.series(now - timedelta(hours=24), now, step=timedelta(hours=25), kind=kind)[
            ""
        ]
    return KindStats(tuple(reversed(outcomes)), point.p50, point.p95)


def as_data(found: Any) -> Any:
    """The same for JSON: dataclasses as objects, moments and ids as text."""
    from dataclasses import asdict, is_dataclass

    if is_dataclass(found) and not isinstance(found, type):
        found = asdict(found)
    if isinstance(found, Mapping):
        return {key: as_data(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [as_data(value) for value in found]
    if isinstance(found, datetime):
        return found.isoformat()
    return str(found) if isinstance(found, UUID) else found
