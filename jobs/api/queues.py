"""Queues, what ends in them, and pauses."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from ninja import Query, Schema

from jobs.api import auth
from jobs.api.numbers import PointOut, SpanIn, point
from jobs.api.sections import Section
from jobs.engine import sql
from jobs.models import Pause
from jobs.names import name_problem
from jobs.operate import overview, pauses, sight, stats, targets
from jobs.operate.permissions import VIEW_QUEUE
from jobs.principals import Principal

section = Section("queues", {"scope": "/scopes"})


class QueueOut(Schema):
    """A queue; counts stop at ten thousand. ``queued`` jobs are dispatched, but wait, too."""

    name: str
    waiting: int
    queued: int
    running: int
    scheduled: int
    retrying: int
    oldest_ms: int | None
    paused: bool
    paused_reason: str
    dispatched_at: datetime | None


class PauseOut(Schema):
    """A pause in force."""

    scope: str
    reason: str
    by: str
    until: datetime | None
    created_at: datetime


class ResumedOut(Schema):
    """Whether there was a pause."""

    resumed: bool


def _queues(who: Principal, name: str | None = None) -> list[dict[str, Any]]:
    dispatched: dict[str, datetime | None] = dict(
        sql.rows(
            "SELECT name, dispatched_at FROM jobs_queue WHERE %s::text IS NULL OR name = %s",
            [name, name],
        )
    )
    return [_told(row, dispatched.get(row.name)) for row in overview.queues(by=who, name=name)]


def _told(row: overview.QueueRow, dispatched_at: datetime | None) -> dict[str, Any]:
    depth, pause = row.depth, next((stop for stop in row.stops if stop.what == "pause"), None)
    return {
        "name": row.name,
        "waiting": depth.waiting.value,
        "queued": depth.queued.value,
        "running": depth.running.value,
        "scheduled": depth.scheduled.value,
        "retrying": depth.retrying.value,
        "oldest_ms": None if depth.oldest_at is None else round(depth.oldest * 1000),
        "paused": pause is not None,
        "paused_reason": pause.reason if pause else "",
        "dispatched_at": dispatched_at,
    }


def _queue(who: Principal, name: str) -> dict[str, Any]:
    """The queue, whose numbers are those of all its tenants."""
    found = _queues(who, name) if _sees_queue(who, name) else []
    if not found:
        raise targets.unknown("queue", name)
    return found[0]


def _sees_queue(who: Principal, name: str) -> bool:
    return not name_problem(name) and who.scope.covers("", name)


@section.get("/queues", "queue_list", needs=VIEW_QUEUE, answer=list[QueueOut])
def queue_list(request: HttpRequest) -> Any:
    """Every queue that jobs, code or workers name; for callers who see all tenants."""
    return _queues(auth.who(request))


@section.get("/queues/{name}", "queue_get", needs=VIEW_QUEUE, answer=QueueOut)
def queue_get(request: HttpRequest, name: str) -> Any:
    """One queue."""
    return _queue(auth.who(request), name)


@section.get(
    "/queues/{name}/metrics", "queue_metrics", needs=VIEW_QUEUE, answer=list[PointOut]
)  # fmt: skip
def queue_metrics(request: HttpRequest, name: str, wanted: Query[SpanIn]) -> Any:
    """How attempts of the queue's jobs ended over time."""
    _queue(auth.who(request), name)
    step = timedelta(milliseconds=wanted.step_ms)
    found = stats.series(wanted.since, wanted.until, step=step, queue=name)
    return [point(one) for one in found[""]]


@section.get("/pauses", "pause_list", needs=VIEW_QUEUE, answer=list[PauseOut])
def pause_list(request: HttpRequest) -> Any:
    """The pauses in force."""
    who = auth.who(request)
    found: list[Pause] = pauses.paused()
    return [one for one in found if sight.is_visible(who, "scope", one.scope)]


def _paused(who: Principal, scope: str, found: Pause) -> Any:
    return found


def _resumed(who: Principal, scope: str, found: bool) -> Any:
    return {"resumed": found}


_PAUSE: dict[str, Any] = {"answer": PauseOut, "show": _paused}
_RESUME: dict[str, Any] = {"answer": ResumedOut, "show": _resumed}


section.does("scope.pause", "/pauses", "pause_scope", **_PAUSE)
section.does(
    "scope.pause",
    "/queues/{name}/pause",
    "queue_pause",
    **_PAUSE,
    target="queue:{}",
    summary="Start nothing more of a queue; running jobs continue",
)
section.does("scope.resume", "/pauses/resume", "resume_scope", **_RESUME)
section.does(
    "scope.resume",
    "/queues/{name}/resume",
    "queue_resume",
    **_RESUME,
    target="queue:{}",
    summary="End the pause of a queue",
)
