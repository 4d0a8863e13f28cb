"""Numbers: the first page, how attempts ended over time, and how each kind goes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Query, Schema
from pydantic import ConfigDict

from jobs import registry
from jobs.api import auth
from jobs.api.problem import Problem
from jobs.api.sections import Section
from jobs.api.workers import WorkerOut, worker
from jobs.engine import sql
from jobs.errors import UnknownTarget
from jobs.operate import charts, overview, stats
from jobs.operate.permissions import VIEW_JOB
from jobs.principals import Principal

section = Section("stats", {"deploy": "/deploys"})


class SpanIn(Schema):
    """From when to when, in which steps."""

    model_config = ConfigDict(extra="forbid")
    since: datetime
    until: datetime | None = None
    step_ms: int = Field(60_000, ge=60_000, le=86_400_000)


class SeriesIn(SpanIn):
    """Of what besides."""

    by: Literal["kind", "queue"] | None = None
    kind: str | None = Field(None, max_length=120)
    queue: str | None = Field(None, max_length=120)


class PointOut(Schema):
    """What ended within a step."""

    at: datetime
    counts: dict[str, int]
    dead_letters: int
    stalls: int
    throughput: float
    failure_rate: float | None
    p50_ms: float | None
    p95_ms: float | None


class SeriesOut(Schema):
    """Points by name; the series of everything has the empty one."""

    series: dict[str, list[PointOut]]


class NumberOut(Schema):
    """How many; ``capped`` says that there are more than that."""

    value: int
    capped: bool


class TroubleOut(Schema):
    """A problem that needs attention."""

    code: str
    text: str
    subject: str


class DepthOut(Schema):
    """How much a queue holds; only jobs whose time has come are counted as waiting."""

    name: str
    waiting: NumberOut
    running: NumberOut
    scheduled: NumberOut
    retrying: NumberOut
    oldest_ms: int
    slots: int


class QueueNumbersOut(DepthOut):
    """A queue of the first page; ``spark`` are attempts that ended, by steps of six minutes."""

    paused: str
    limit: int | None
    spark: list[int]


class CauseNumbersOut(Schema):
    """The most frequent causes of dead letters."""

    fingerprint: str
    summary: str
    count: NumberOut
    last_at: datetime


class BatchNumbersOut(Schema):
    """A batch that has not ended."""

    id: UUID
    name: str
    total: int | None
    succeeded: int
    failed: int
    ended: int


class ActionOut(Schema):
    """A recent action."""

    at: datetime
    by: str
    action: str
    target: str
    outcome: str


class OverviewOut(Schema):
    """The first page."""

    at: datetime
    problems: list[TroubleOut]
    tiles: dict[str, NumberOut]
    queues: list[QueueNumbersOut]
    workers: list[WorkerOut]
    causes: list[CauseNumbersOut]
    batches: list[BatchNumbersOut]
    actions: list[ActionOut]


class KindNumbersOut(Schema):
    """How the attempts of a kind ended on the last day."""

    counts: dict[str, int]
    dead_letters: int
    stalls: int
    throughput: float
    failure_rate: float | None
    p50_ms: float | None
    p95_ms: float | None


class KindsNumbersOut(Schema):
    """Numbers by kind."""

    since: datetime
    until: datetime
    kinds: dict[str, KindNumbersOut]


class KindLatelyOut(Schema):
    """How the last jobs of a kind ended, oldest first, and how long they took."""

    outcomes: list[str]
    p50_ms: float | None
    p95_ms: float | None


@section.get("/stats/overview", "stats_overview", needs=VIEW_JOB, answer=OverviewOut)
def stats_overview(request: HttpRequest) -> Any:
    """Problems, numbers of waiting and running jobs, and throughput, as far as you may see them."""
    found = overview.overview(by=auth.who(request))
    queues = [
        {**_fields(row), **_fields(row.depth), "oldest_ms": round(row.depth.oldest * 1000)}
        for row in found.queues
    ]
    told = [worker(one) for one in found.workers]
    return {**_fields(found), "tiles": dict(found.tiles), "queues": queues, "workers": told}


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


@section.get("/stats/throughput", "stats_throughput", needs=VIEW_JOB, answer=SeriesOut)
def stats_throughput(request: HttpRequest, wanted: Query[SeriesIn]) -> Any:
    """How attempts ended over time; the numbers of all tenants, for callers who see them all."""
    _check_queue(_of_all_tenants(request), wanted.queue)
    found = stats.series(
        wanted.since,
        wanted.until,
        step=timedelta(milliseconds=wanted.step_ms),
        by=wanted.by,
        kind=wanted.kind,
        queue=wanted.queue,
    )
    return {"series": {name: [point(one) for one in points] for name, points in found.items()}}


class LatelyIn(Schema):
    """Of one queue only."""

    model_config = ConfigDict(extra="forbid")
    queue: str | None = Field(None, max_length=120)


@section.get("/stats/kinds", "stats_kinds", needs=VIEW_JOB, answer=KindsNumbersOut)
def stats_kinds(request: HttpRequest, wanted: Query[LatelyIn]) -> Any:
    """How each kind went on the last day."""
    _check_queue(_of_all_tenants(request), wanted.queue)
    [(now,)] = sql.rows("SELECT jobs_clock()")
    since = now - timedelta(hours=24)
    found = stats.series(since, now, step=timedelta(hours=25), by="kind", queue=wanted.queue)
    kinds = {name: point(points[0], 86_400.0) for name, points in found.items()}
    return {"since": since, "until": now, "kinds": kinds}


@section.get("/stats/kinds/{name}", "stats_kind", needs=VIEW_JOB, answer=KindLatelyOut)
def stats_kind(request: HttpRequest, name: str) -> Any:
    """The last outcomes of a kind, and how long its attempts took on the last day."""
    found = charts.kind_stats(registry.get(name).kind, by=auth.who(request))
    return {
        "outcomes": list(found.outcomes),
        "p50_ms": _ms(found.p50),
        "p95_ms": _ms(found.p95),
    }


class DeployOut(Schema):
    """A mark in the charts."""

    at: datetime
    version: str
    by: str


section.does(
    "deploy.mark",
    "/deploys",
    "deploy_mark",
    answer={201: DeployOut},
    show=lambda who, version, made: made,
)


def _of_all_tenants(request: HttpRequest) -> Principal:
    who = auth.who(request)
    if who.scope.tenants is not None:
        raise Problem(403, "needs-all-tenants", "these numbers are those of all tenants")
    return who


def _check_queue(who: Principal, queue: str | None) -> None:
    if who.scope.queues is not None and queue not in who.scope.queues:
        raise UnknownTarget("queue", queue or "")


def point(found: stats.Point, seconds: float | None = None) -> dict[str, Any]:
    """What ended within a step, which may be said to have this many seconds."""
    return {
        "at": found.at,
        "counts": dict(found.counts),
        "dead_letters": found.letters,
        "stalls": found.stalls,
        "throughput": found.throughput * found.step / (seconds or found.step),
        "failure_rate": found.failure_rate,
        "p50_ms": _ms(found.p50),
        "p95_ms": _ms(found.p95),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
