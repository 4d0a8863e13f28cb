"""Schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema, Status

from jobs import registry
from jobs.api import auth, conditional, sight
from jobs.api.endpoints import In
from jobs.api.schemas import WhyIn
from jobs.api.slots import MANAGE, seconds
from jobs.api.slots import section as section
from jobs.engine import sql
from jobs.models import Schedule
from jobs.operate import schedules
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
    """A rule of the clock, and the jobs that it makes."""

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


class UntilIn(WhyIn):
    """Until when."""

    until: datetime | None = None


class MadeOut(Schema):
    """The job."""

    job_id: UUID


def _told(who: Principal, row: Schedule) -> dict[str, Any]:
    names = set(ScheduleOut.model_fields) - {"interval_ms", "payload"}
    told = {name: getattr(row, name) for name in names}
    told["interval_ms"] = None if row.interval is None else round(row.interval * 1000)
    if who.may("view_payload"):
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


@section.get("/schedules", "schedule_list", needs="view_schedule", answer=list[ScheduleOut])
def schedule_list(request: HttpRequest) -> Any:
    """Schedules, by name."""
    who = auth.who(request)
    return [_told(who, row) for row in _visible(who)]


@section.post(
    "/schedules", "schedule_create", needs=MANAGE, answer={201: ScheduleOut},
    verb="schedule.create",
)  # fmt: skip
def schedule_create(request: HttpRequest, body: ScheduleIn) -> Any:
    """The schedule makes its jobs from now on."""
    who = auth.who(request)
    given = {"queue": body.queue, "priority": body.priority, "tenant": body.tenant}
    options = {name: value for name, value in given.items() if value is not None}
    made = schedules.create(
        body.name,
        registry.get(body.kind).payload.build(body.payload),
        by=who,
        reason=body.reason,
        cron=body.cron,
        interval=seconds(body.interval_ms),
        time_zone=body.time_zone,
        missed=body.missed,
        overlap=body.overlap,
        **options,
    )
    return Status(201, _told(who, made))


@section.get("/schedules/{name}", "schedule_get", needs="view_schedule", answer=ScheduleOut)
def schedule_get(request: HttpRequest, response: HttpResponse, name: str) -> Any:
    """One schedule."""
    who = auth.who(request)
    row = _seen(who, name)
    tag = conditional.tag(row, who.may("view_payload"))
    return conditional.fresh(request, response, tag) or _told(who, row)


@section.patch(
    "/schedules/{name}", "schedule_edit", needs=MANAGE, answer=ScheduleOut, verb="schedule.edit"
)  # fmt: skip
def schedule_edit(request: HttpRequest, name: str, body: SchedulePatch) -> Any:
    """Other values; If-Match says which ones you have seen. What code declares stays as it is."""
    who = auth.who(request)
    sight.check(who, "schedule", name)
    rows = Schedule.objects.using(sql.alias()).select_for_update()
    row = rows.get(name=name)
    conditional.check(request, row)
    given = body.model_dump(exclude={"payload", "interval_ms"}, exclude_none=True)
    if body.payload is not None:
        given["payload"] = registry.get(row.kind).payload.build(body.payload)
    made = schedules.edit(name, by=who, interval=seconds(body.interval_ms), **given)
    return _told(who, made)


@section.post(
    "/schedules/{name}/delete", "schedule_remove", needs=MANAGE, answer={204: None},
    verb="schedule.remove",
)  # fmt: skip
def schedule_remove(request: HttpRequest, name: str, body: WhyIn) -> Any:
    """The schedule is gone; its jobs stay."""
    schedules.remove(name, by=auth.who(request), reason=body.reason)
    return Status(204, None)


@section.post(
    "/schedules/{name}/pause", "schedule_pause", needs=MANAGE, answer=ScheduleOut,
    verb="schedule.pause",
)  # fmt: skip
def schedule_pause(request: HttpRequest, name: str, body: UntilIn) -> Any:
    """The schedule makes no jobs."""
    who = auth.who(request)
    return _told(who, schedules.pause(name, by=who, reason=body.reason, until=body.until))


@section.post(
    "/schedules/{name}/resume", "schedule_resume", needs=MANAGE, answer=ScheduleOut,
    verb="schedule.resume",
)  # fmt: skip
def schedule_resume(request: HttpRequest, name: str, body: WhyIn) -> Any:
    """The schedule goes on with its next slot."""
    who = auth.who(request)
    return _told(who, schedules.resume(name, by=who, reason=body.reason))


@section.post(
    "/schedules/{name}/run", "schedule_run", needs=MANAGE, answer={201: MadeOut},
    verb="schedule.run_now",
)  # fmt: skip
def schedule_run(request: HttpRequest, name: str, body: WhyIn) -> Any:
    """A job beside the slots."""
    made = schedules.run_now(name, by=auth.who(request), reason=body.reason)
    return Status(201, {"job_id": made})
