"""Schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Schema

from jobs import registry
from jobs.api import auth, conditional
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


def _shown(who: Principal, name: str | None, row: Schedule) -> Any:
    return _told(who, row)


section.does(
    "schedule.create",
    "/schedules",
    "schedule_create",
    answer={201: ScheduleOut},
    location="/schedules/{name}",
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
