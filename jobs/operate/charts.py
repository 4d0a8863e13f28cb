"""Charts over time, the marks that deploys leave on them, and how a kind's jobs went lately."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field

from jobs.engine import sql
from jobs.engine.arrivals import OUTCOME
from jobs.errors import Denied, InvalidOption
from jobs.operate import reads, stats, targets
from jobs.operate.permissions import MANAGE_WORKER
from jobs.operate.query.terms import Query
from jobs.operate.stats import Point
from jobs.operate.targets import DEPLOY
from jobs.operate.verbs import acting, verb
from jobs.principals import By, principal

SPANS: Mapping[str, tuple[timedelta, timedelta]] = {
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "3h": (timedelta(hours=3), timedelta(minutes=2)),
    "24h": (timedelta(hours=24), timedelta(minutes=15)),
    "7d": (timedelta(days=7), timedelta(hours=1)),
}
"""How far back charts go, and the step of each."""
VERSION_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Deploy:
    at: datetime
    version: str
    by: str


@dataclass(frozen=True, slots=True)
class Throughput:
    """How attempts ended, by steps, and what went live meanwhile.

    Points also count the jobs that were ``enqueued``, where the chart is of every queue; the last
    minute and a half are not counted yet. No statistics know tenants: who sees only some of them
    gets the deploys alone.
    """

    points: tuple[Point, ...]
    deploys: tuple[Deploy, ...]


# Durations by bucket are most of a row; a chart of counts does not add them up.
_CHART = """
SELECT date_bin(%s, {at}, %s), outcome, sum(count)::bigint FROM {table}
WHERE {at} >= {since} AND {at} < {until} AND (%s::text[] IS NULL OR queue = ANY(%s)) GROUP BY 1, 2
"""
_MINUTES = _CHART.format(at="minute", table="jobs_minute", since="%s", until="%s")
# Quarters as far as they are there, and minutes behind the last of them.
_REST = "(SELECT greatest(%s, max(at) + interval '15 min') FROM jobs_quarter)"
_QUARTERS = " UNION ALL ".join((
    f"({_CHART.format(at='at', table='jobs_quarter', since='%s', until=_REST)})",
    f"({_CHART.format(at='minute', table='jobs_minute', since=_REST, until='%s')})",
))  # fmt: skip
QUARTER = timedelta(minutes=15)
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def throughput(
    span: Literal["1h", "3h", "24h", "7d"] = "3h",
    *,
    by: By,
    queue: str | None = None,
    now: datetime | None = None,
) -> Throughput:
    """The chart of the span; of one queue where it is named, else of all that ``by`` may see.

    It ends now, or at the moment that the caller calls so. Raises Denied without ``view_queue``,
    UnknownTarget for a queue outside the scope.
    """
    who = principal(by)
    scope = who.scope
    if not who.may("view_queue"):
        raise Denied("view_queue")
    if span not in SPANS:
        raise InvalidOption("span", f"must be one of {', '.join(SPANS)}, got {span!r}")
    if queue is not None and not scope.covers(queue=queue):
        raise targets.unknown("queue", queue)
    names = [queue] if queue is not None else None if scope.queues is None else [*scope.queues]
    back, step = SPANS[span]
    with reads.bounded():
        if now is None:
            [(now,)] = sql.rows("SELECT jobs_clock()")
        unit = QUARTER if step % QUARTER == timedelta(0) else timedelta(minutes=1)
        since = now - back - (now - back - EPOCH) % unit
        counted: dict[datetime, dict[str, int]] = defaultdict(dict)
        if scope.tenants is None:
            for at, outcome, number in _counts(step, unit, since, now, names):
                counted[at][outcome] = counted[at].get(outcome, 0) + number
        steps = range(-(-(now - since) // step)) if scope.tenants is None else ()
        points = [
            Point(since + step * n, step.total_seconds(), counted[since + step * n]) for n in steps
        ]
        marks = sql.rows(
            "SELECT at, version, by FROM jobs_deploy WHERE at >= %s ORDER BY at DESC LIMIT 100",
            [now - back],
        )
    return Throughput(tuple(points), tuple(Deploy(*row) for row in reversed(marks)))


def _counts(
    step: timedelta, unit: timedelta, since: datetime, now: datetime, names: list[str] | None
) -> Iterator[tuple[datetime, str, int]]:
    """Sums of quarters, where these fit the step, and of minutes behind the last of them."""
    if unit == QUARTER:
        yield from sql.rows(_QUARTERS, [step, since, since, since, names, names,
                                        step, since, since, now, names, names])  # fmt: skip
    else:
        yield from sql.rows(_MINUTES, [step, since, since, now, names, names])


def enqueued(point: Point) -> int:
    """The jobs that were enqueued in the point's time."""
    return point.counts.get(OUTCOME, 0)


@verb("deploy.mark", on=DEPLOY, permission=MANAGE_WORKER, group="administrator")
def mark_deploy(
    version: Annotated[
        str, Field(min_length=1, max_length=VERSION_LIMIT, description="what runs from now on")
    ],
    *,
    by: By,
    reason: str = "",
) -> Deploy:
    """Mark a deployment in the charts."""
    with acting(mark_deploy, version, by=by, reason=reason) as act:
        if (
            not isinstance(version, str)
            or not 1 <= len(version) <= VERSION_LIMIT
            or not version.isprintable()
        ):
            problem = f"must be a printable text of 1 to {VERSION_LIMIT} characters"
            raise InvalidOption("version", problem)
        [row] = sql.rows(
            "INSERT INTO jobs_deploy (version, by) VALUES (%s, %s) RETURNING at, version, by",
            [version, act.name],
        )
    return Deploy(*row)


@dataclass(frozen=True, slots=True)
class KindStats:
    """How jobs of a kind went lately, as far as they may be seen."""

    outcomes: tuple[str, ...]
    """States of the last ended jobs, oldest first."""
    p50: float | None
    p95: float | None
    """Of the last day's attempts of all tenants and queues; None for who does not see all."""


NEWEST = 5000
# Found among the newest jobs only; a kind that is rare shows fewer outcomes, or none.
_OUTCOMES = f"""
SELECT state FROM (SELECT kind, state, tenant, queue, created_at, id FROM jobs_job
  ORDER BY created_at DESC, id DESC LIMIT {NEWEST}) AS j
WHERE kind = %s AND state IN ('succeeded', 'failed', 'cancelled', 'expired') AND {{}}
ORDER BY created_at DESC, id DESC LIMIT 50
"""  # noqa: S608 - constants


def kind_stats(kind: str, *, by: By) -> KindStats:
    """The last 50 outcomes of a kind, and how long its attempts took on the last day."""
    who = principal(by)
    if not who.may("view_job"):
        raise Denied("view_job")
    within, parameters = Query().where(who.scope)
    with reads.bounded():
        found = sql.rows(_OUTCOMES.format(within), [kind, *parameters])
        outcomes = tuple(row[0] for row in reversed(found))
        if not who.scope.is_everything:
            return KindStats(outcomes, None, None)
        [(now,)] = sql.rows("SELECT jobs_clock()")
        [point] = stats.series(now - timedelta(hours=24), now, step=timedelta(hours=25), kind=kind)[
            ""
        ]
    return KindStats(outcomes, point.p50, point.p95)
