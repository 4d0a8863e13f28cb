"""Schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema

from jobs import registry
from jobs.api import auth, conditional
from jobs.api.inputs import In
from jobs.api.slots import section as section
from jobs.engine import sql
from jobs.models import Schedule
from jobs.operate import schedules, sight
from jobs.operate.permissions import VIEW_PAYLOAD, VIEW_SCHEDULE
from jobs.operate.shown import public_data
from jobs.principals import Principal


class ScheduleOut(Schema):
    """A schedule."""

    id: int
    name: str
    kind: str
    cron: str
    interval_ms: int | None
    time_zone: str
    missed: str
    overlap: str
    enabled: bool
    paused_at: datetime | None
    paused_by: str
    paused_reason: str
    paused_until: datetime | None
    is_declared: bool
    last_slot: datetime | None
    next_slot: datetime | None
    error: str
    payload: Any = None


class ScheduleIn(In):
    """A schedule: its rule, and the jobs that it makes."""

    name: str = Field(min_length=1, max_length=120)
    kind: str = Field(min_length=1, max_length=120)
    payload: dict[str, Any] = Field(default_factory=dict)
    cron: str | None = Field(None, max_length=200)
    interval_ms: int | None = Field(None, ge=5000, le=3660 * 86_400_000)
    time_zone: str | None = Field(None, max_length=64)
    missed: Literal["skip", "latest", "all"] = "latest"
    overlap: Literal["allow", "skip"] = "allow"
    queue: str | None = Field(None, max_length=120)
    priority: int | None = Field(None, ge=-100, le=100)
    tenant: str | None = Field(None, max_length=120)
    reason: str = Field(min_length=1, max_length=500)


class SchedulePatch(In):
    """What is to be another from the next slot on; a given ``payload`` replaces all of it."""

    payload: dict[str, Any] | None = None
    cron: str | None = Field(None, max_length=200)
    interval_ms: int | None = Field(None, ge=5000, le=3660 * 86_400_000)
    time_zone: str | None = Field(None, max_length=64)
    missed: Literal["skip", "latest", "all"] | None = None
    overlap: Literal["allow", "skip"] | None = None
    reason: str = Field(min_length=1, max_length=500)


class MadeOut(Schema):
    """The job."""

    job_id: UUID


def _told(who: Principal, row: Schedule) -> dict[str, Any]:
    names = set(ScheduleOut.model_fields) - {"interval_ms", "payload"}
    told = {name: getattr(row, name) for name in names}
    told["next_slot"] = schedules.coming(row)
    told["interval_ms"] = None if row.interval is None else round(row.interval * 1000)
    if who.may(VIEW_PAYLOAD):
        told["payload"] = public_data(row.payload)
    return told


def _visible(who: Principal) -> list[Schedule]:
    rows = Schedule.objects.using(sql.alias()).order_by("name")[:1000]
    if who.scope.is_everything:
        return list(rows)
    return [
        row
        for row in rows
        if who.scope.covers(str(row.options.get("tenant") or ""), _queue_of(row))
    ]


def _queue_of(row: Schedule) -> str:
    handler = registry.find(row.kind)
    return str(row.options.get("queue") or (handler.queue if handler else ""))


def _seen(who: Principal, name: str) -> Schedule:
    sight.check(who, "schedule", name)
    return schedules.find(name)


@section.get("/schedules", "schedule_list", needs=VIEW_SCHEDULE, answer=list[ScheduleOut])
def schedule_list(request: HttpRequest) -> Any:
    """Schedules, by name."""
    who = auth.who(request)
    return [_told(who, row) for row in _visible(who)]


def _made(who: Principal, name: None, body: ScheduleIn) -> dict[str, Any]:
    options = {"queue": body.queue, "priority": body.priority, "tenant": body.tenant}
    given = {option: value for option, value in options.items() if value is not None}
    return {**given, "payload": registry.get(body.kind).payload.build(body.payload)}


def _changed(who: Principal, name: str, body: SchedulePatch) -> dict[str, Any]:
    if body.payload is None:
        return {"payload": None}
    kind = schedules.find(name).kind
    return {"payload": registry.get(kind).payload.build(body.payload)}


def _shown(who: Principal, name: str | None, row: Schedule) -> Any:
    return _told(who, row)


section.does(
    "schedule.create",
    "/schedules",
    "schedule_create",
    answer={201: ScheduleOut},
    location="/schedules/{name}",
    body=ScheduleIn,
    given=_made,
    show=_shown,
)


@section.get("/schedules/{name}", "schedule_get", needs=VIEW_SCHEDULE, answer=ScheduleOut)
def schedule_get(request: HttpRequest, response: HttpResponse, name: str) -> Any:
    """One schedule."""
    who = auth.who(request)
    row = _seen(who, name)
    tag = conditional.tag(row, who.may(VIEW_PAYLOAD))
    return conditional.fresh(request, response, tag) or _told(who, row)


section.does(
    "schedule.edit",
    "/schedules/{name}",
    "schedule_edit",
    answer=ScheduleOut,
    locked=_seen,
    body=SchedulePatch,
    given=_changed,
    show=_shown,
)


section.does(
    "schedule.remove",
    "/schedules/{name}/delete",
    "schedule_remove",
    answer={204: None},
)


section.does(
    "schedule.pause",
    "/schedules/{name}/pause",
    "schedule_pause",
    answer=ScheduleOut,
    show=_shown,
)


section.does(
    "schedule.resume",
    "/schedules/{name}/resume",
    "schedule_resume",
    answer=ScheduleOut,
    show=_shown,
)


section.does(
    "schedule.run_now",
    "/schedules/{name}/run",
    "schedule_run",
    answer={201: MadeOut},
    location="/jobs/{job_id}",
    show=lambda who, name, made: {"job_id": made},
)
