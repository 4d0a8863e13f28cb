"""Schedules and blackout windows."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import ConfigDict

from jobs import registry
from jobs.api import auth, conditional, sight
from jobs.api.endpoints import In, Section
from jobs.api.schemas import WhyIn
from jobs.engine import sql
from jobs.models import Blackout, Schedule
from jobs.operate import blackouts, schedules
from jobs.operate.shown import public_data
from jobs.principals import Principal

section = Section("schedules")
windows = Section("blackouts")
_MANAGE = "manage_schedule"
_BLACKOUT = "manage_blackout"


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


class UntilIn(WhyIn):
    """Until when."""

    until: datetime | None = None


class SlotsIn(Schema):
    """How many slots, and after when."""

    model_config = ConfigDict(extra="forbid")
    count: int = Field(5, ge=1, le=100)
    after: datetime | None = None


class SlotsOut(Schema):
    """Moments."""

    slots: list[datetime]


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
    "/schedules", "schedule_create", needs=_MANAGE, answer={201: ScheduleOut},
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
        interval=None if body.interval_ms is None else body.interval_ms / 1000,
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


@section.post(
    "/schedules/{name}/delete", "schedule_remove", needs=_MANAGE, answer={204: None},
    verb="schedule.remove",
)  # fmt: skip
def schedule_remove(request: HttpRequest, name: str, body: WhyIn) -> Any:
    """The schedule is gone; its jobs stay."""
    schedules.remove(name, by=auth.who(request), reason=body.reason)
    return Status(204, None)


@section.post(
    "/schedules/{name}/pause", "schedule_pause", needs=_MANAGE, answer=ScheduleOut,
    verb="schedule.pause",
)  # fmt: skip
def schedule_pause(request: HttpRequest, name: str, body: UntilIn) -> Any:
    """The schedule makes no jobs."""
    who = auth.who(request)
    return _told(who, schedules.pause(name, by=who, reason=body.reason, until=body.until))


@section.post(
    "/schedules/{name}/resume", "schedule_resume", needs=_MANAGE, answer=ScheduleOut,
    verb="schedule.resume",
)  # fmt: skip
def schedule_resume(request: HttpRequest, name: str, body: WhyIn) -> Any:
    """The schedule goes on with its next slot."""
    who = auth.who(request)
    return _told(who, schedules.resume(name, by=who, reason=body.reason))


@section.post(
    "/schedules/{name}/run", "schedule_run", needs=_MANAGE, answer={201: MadeOut},
    verb="schedule.run",
)  # fmt: skip
def schedule_run(request: HttpRequest, name: str, body: WhyIn) -> Any:
    """A job beside the slots."""
    made = schedules.run_now(name, by=auth.who(request), reason=body.reason)
    return Status(201, {"job_id": made})


@section.get("/schedules/{name}/next", "schedule_next", needs="view_schedule", answer=SlotsOut)
def schedule_next(request: HttpRequest, name: str, wanted: Query[SlotsIn]) -> Any:
    """The next slots, as if nothing were paused."""
    _seen(auth.who(request), name)
    return {"slots": schedules.preview(name, wanted.count, wanted.after)}


class WindowIn(In):
    """A window that comes back: days (0 is Monday, none is every day), start, end, time zone."""

    scope: str = Field(min_length=3, max_length=300)
    start: time
    end: time
    days: list[int] = Field(default_factory=list, max_length=7)
    time_zone: str = Field("UTC", max_length=64)


class BlackoutIn(WindowIn):
    """A window, and why."""

    reason: str = Field(min_length=1, max_length=500)
    enabled: bool = True


class BlackoutPatch(In):
    """What is to be another."""

    scope: str | None = Field(None, min_length=3, max_length=300)
    start: time | None = None
    end: time | None = None
    days: list[int] | None = Field(None, max_length=7)
    time_zone: str | None = Field(None, max_length=64)
    enabled: bool | None = None
    reason: str = Field(min_length=1, max_length=500)


class BlackoutOut(Schema):
    """A blackout window."""

    id: int
    scope: str
    start: time
    end: time
    days: list[int]
    time_zone: str
    reason: str
    enabled: bool


class ImpactOut(Schema):
    """A week of a window, and whom it holds back now."""

    begin: datetime
    end: datetime
    spans: list[tuple[datetime, datetime]]
    active_until: datetime | None
    held: int
    more: bool


def _window(who: Principal, number: int) -> Blackout:
    rows = Blackout.objects.using(sql.alias())
    row = sight.one(rows, "blackout", number)
    if not sight.is_visible(who, "scope", row.scope):
        from jobs.operate import targets

        raise targets.unknown("blackout", number)
    return row


def _impact(found: blackouts.Preview) -> dict[str, Any]:
    told = {name: getattr(found, name) for name in ("begin", "end", "spans", "active_until")}
    return {**told, "held": found.impact.held, "more": found.impact.more}


@windows.get("/blackouts", "blackout_list", needs="view_blackout", answer=list[BlackoutOut])
def blackout_list(request: HttpRequest) -> Any:
    """Blackout windows."""
    who = auth.who(request)
    rows = Blackout.objects.using(sql.alias()).order_by("scope", "start", "id")[:1000]
    return [row for row in rows if sight.is_visible(who, "scope", row.scope)]


@windows.post(
    "/blackouts", "blackout_create", needs=_BLACKOUT, answer={201: BlackoutOut},
    verb="blackout.create",
)  # fmt: skip
def blackout_create(request: HttpRequest, body: BlackoutIn) -> Any:
    """The window exists and, where it is open now, holds at once."""
    values = body.model_dump()
    return Status(201, blackouts.create(by=auth.who(request), **values))


@windows.post("/blackouts/preview", "blackout_preview", needs="view_blackout", answer=ImpactOut)
def blackout_preview(request: HttpRequest, body: WindowIn) -> Any:
    """What such a window would do; nothing is written."""
    sight.check_scope(auth.who(request), body.scope)
    return _impact(blackouts.preview(**body.model_dump()))


@windows.get("/blackouts/{int:number}", "blackout_get", needs="view_blackout", answer=BlackoutOut)
def blackout_get(request: HttpRequest, response: HttpResponse, number: int) -> Any:
    """One window."""
    row = _window(auth.who(request), number)
    return conditional.fresh(request, response, conditional.tag(row)) or BlackoutOut.from_orm(row)


@windows.get(
    "/blackouts/{int:number}/impact", "blackout_impact", needs="view_blackout", answer=ImpactOut
)
def blackout_impact(request: HttpRequest, number: int) -> Any:
    """What the window does this week."""
    row = _window(auth.who(request), number)
    found = blackouts.preview(row.scope, row.start, row.end, days=row.days, time_zone=row.time_zone)
    return _impact(found)


@windows.patch(
    "/blackouts/{int:number}", "blackout_update", needs=_BLACKOUT, answer=BlackoutOut,
    verb="blackout.update",
)  # fmt: skip
def blackout_update(request: HttpRequest, number: int, body: BlackoutPatch) -> Any:
    """Other values; If-Match says which ones you have seen."""
    who = auth.who(request)
    rows = Blackout.objects.using(sql.alias()).select_for_update()
    _window(who, number)
    conditional.check(request, rows.get(pk=number))
    given = body.model_dump(exclude_unset=True)
    changes = {name: value for name, value in given.items() if value is not None}
    if "scope" in changes:
        sight.check_scope(who, changes["scope"])
    return blackouts.update(number, by=who, **changes)


@windows.post(
    "/blackouts/{int:number}/delete", "blackout_delete", needs=_BLACKOUT, answer={204: None},
    verb="blackout.delete",
)  # fmt: skip
def blackout_delete(request: HttpRequest, number: int, body: WhyIn) -> Any:
    """The window is gone; what it held may start."""
    blackouts.delete(number, by=auth.who(request), reason=body.reason)
    return Status(204, None)
