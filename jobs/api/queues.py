"""Queues, what ends in them, and pauses."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Schema

from jobs.api import auth, sight
from jobs.api.endpoints import In, Section
from jobs.api.numbers import PointOut, SpanIn, point
from jobs.engine import sql
from jobs.models import Pause
from jobs.names import name_problem
from jobs.operate import pauses, stats, targets
from jobs.principals import Principal

section = Section("queues")
COUNTED = 10_000


class QueueOut(Schema):
    """A queue; counts stop at ten thousand."""

    name: str
    waiting: int
    queued: int
    running: int
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


class PauseIn(In):
    """Why nothing starts, and until when."""

    reason: str = Field(min_length=1, max_length=500)
    until: datetime | None = None


class ScopeIn(PauseIn):
    """``queue:…``, ``kind:…``, ``tenant:…`` or ``key:…``."""

    scope: str = Field(min_length=3, max_length=300)


class ResumeIn(In):
    """Why it goes on."""

    reason: str = Field(min_length=1, max_length=500)


class ResumeScopeIn(ResumeIn):
    """Which scope."""

    scope: str = Field(min_length=3, max_length=300)


class ResumedOut(Schema):
    """Whether there was a pause."""

    resumed: bool


_QUEUES = """
SELECT q.name, q.dispatched_at,
  (SELECT count(*) FROM (SELECT 1 FROM jobs_job j WHERE j.queue = q.name AND j.state = 'pending'
    AND j.wait = 0 LIMIT %s) c),
  (SELECT count(*) FROM (SELECT 1 FROM jobs_job j WHERE j.queue = q.name
    AND j.state IN ('queued', 'running') AND j.state = 'queued' LIMIT %s) c),
  (SELECT count(*) FROM (SELECT 1 FROM jobs_job j WHERE j.queue = q.name
    AND j.state IN ('queued', 'running') AND j.state = 'running' LIMIT %s) c),
  (SELECT extract(epoch FROM jobs_clock() - min(c.run_at))::float8 FROM (SELECT run_at
    FROM jobs_job j WHERE j.queue = q.name AND j.state = 'pending' AND j.wait = 0
    ORDER BY lane, rank LIMIT 1000) c),
  p.scope IS NOT NULL, coalesce(p.reason, '')
FROM jobs_queue q LEFT JOIN jobs_pause p ON p.scope = 'queue:' || q.name
  AND (p.until IS NULL OR p.until > jobs_clock())
WHERE %s::text[] IS NULL OR q.name = ANY(%s::text[]) ORDER BY q.name LIMIT 1000
"""


def _queues(names: list[str] | None) -> list[dict[str, Any]]:
    found = sql.rows(_QUEUES, [COUNTED, COUNTED, COUNTED, names, names])
    return [
        {
            "name": name,
            "waiting": waiting,
            "queued": queued,
            "running": running,
            "oldest_ms": None if oldest is None else max(0, round(oldest * 1000)),
            "paused": paused,
            "paused_reason": reason,
            "dispatched_at": dispatched_at,
        }
        for name, dispatched_at, waiting, queued, running, oldest, paused, reason in found
    ]


def _queue(who: Principal, name: str) -> dict[str, Any]:
    """The queue, whose numbers are those of all its tenants."""
    found = _queues([name]) if _sees_queue(who, name) else []
    if not found:
        raise targets.unknown("queue", name)
    return found[0]


def _sees_queue(who: Principal, name: str) -> bool:
    return not name_problem(name) and who.scope.covers("", name)


@section.get("/queues", "queue_list", needs="view_queue", answer=list[QueueOut])
def queue_list(request: HttpRequest) -> Any:
    """Queues that have been dispatched from; of no use to who sees only some tenants."""
    who = auth.who(request)
    if who.scope.tenants is not None:
        return []
    return _queues(None if who.scope.queues is None else sorted(who.scope.queues))


@section.get("/queues/{name}", "queue_get", needs="view_queue", answer=QueueOut)
def queue_get(request: HttpRequest, name: str) -> Any:
    """One queue."""
    return _queue(auth.who(request), name)


@section.get(
    "/queues/{name}/metrics", "queue_metrics", needs="view_queue", answer=list[PointOut]
)  # fmt: skip
def queue_metrics(request: HttpRequest, name: str, wanted: Query[SpanIn]) -> Any:
    """How attempts of the queue's jobs ended over time."""
    _queue(auth.who(request), name)
    step = timedelta(milliseconds=wanted.step_ms)
    found = stats.series(wanted.since, wanted.until, step=step, queue=name)
    return [point(one) for one in found[""]]


@section.post(
    "/queues/{name}/pause", "queue_pause", needs="pause_queue", answer=PauseOut, verb="scope.pause"
)
def queue_pause(request: HttpRequest, name: str, body: PauseIn) -> Any:
    """Nothing of the queue starts; pausing again replaces reason and end."""
    return pauses.pause(f"queue:{name}", by=auth.who(request), reason=body.reason, until=body.until)


@section.post(
    "/queues/{name}/resume",
    "queue_resume",
    needs="pause_queue",
    answer=ResumedOut,
    verb="scope.resume",
)
def queue_resume(request: HttpRequest, name: str, body: ResumeIn) -> Any:
    """The pause of the queue is over."""
    found = pauses.resume(f"queue:{name}", by=auth.who(request), reason=body.reason)
    return {"resumed": found}


@section.get("/pauses", "pause_list", needs="view_queue", answer=list[PauseOut])
def pause_list(request: HttpRequest) -> Any:
    """The pauses in force."""
    who = auth.who(request)
    found: list[Pause] = pauses.paused()
    return [one for one in found if sight.is_visible(who, "scope", one.scope)]


@section.post("/pauses", "pause_scope", needs="pause_queue", answer=PauseOut, verb="scope.pause")
def pause_scope(request: HttpRequest, body: ScopeIn) -> Any:
    """Nothing of the scope starts."""
    return pauses.pause(body.scope, by=auth.who(request), reason=body.reason, until=body.until)


@section.post(
    "/pauses/resume", "resume_scope", needs="pause_queue", answer=ResumedOut, verb="scope.resume"
)
def resume_scope(request: HttpRequest, body: ResumeScopeIn) -> Any:
    """The pause of the scope is over."""
    found = pauses.resume(body.scope, by=auth.who(request), reason=body.reason)
    return {"resumed": found}
