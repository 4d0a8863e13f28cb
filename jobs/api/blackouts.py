"""Blackout windows."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema

from jobs.api import auth, conditional
from jobs.api.inputs import In
from jobs.api.sections import Section
from jobs.engine import sql
from jobs.models import Blackout
from jobs.operate import blackouts, sight, targets
from jobs.operate.permissions import VIEW_BLACKOUT
from jobs.principals import Principal

section = Section("blackouts", {"blackout": "/blackouts"})


class WindowIn(In):
    """A recurring window: days (0 is Monday, none is every day), start, end, time zone."""

    scope: str = Field(min_length=3, max_length=300)
    start: time
    end: time
    days: list[int] = Field(default_factory=list, max_length=7)
    time_zone: str = Field("UTC", max_length=64)


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
        raise targets.unknown("blackout", number)
    return row


def _impact(found: blackouts.Preview) -> dict[str, Any]:
    told = {name: getattr(found, name) for name in ("begin", "end", "spans", "active_until")}
    return {**told, "held": found.impact.held, "more": found.impact.more}


@section.get("/blackouts", "blackout_list", needs=VIEW_BLACKOUT, answer=list[BlackoutOut])
def blackout_list(request: HttpRequest) -> Any:
    """Blackout windows."""
    return sight.blackouts(auth.who(request))


section.does(
    "blackout.create",
    "/blackouts",
    "blackout_create",
    answer={201: BlackoutOut},
    location="/blackouts/{id}",
    show=lambda who, number, made: made,
)


@section.post(
    "/blackouts/preview",
    "blackout_preview",
    needs=VIEW_BLACKOUT,
    answer=ImpactOut,
    keeps_answer=False,
)
def blackout_preview(request: HttpRequest, body: WindowIn) -> Any:
    """What such a window would do; nothing is written."""
    sight.check_scope(auth.who(request), body.scope)
    return _impact(blackouts.preview(**body.model_dump()))


@section.get("/blackouts/{int:number}", "blackout_get", needs=VIEW_BLACKOUT, answer=BlackoutOut)
def blackout_get(request: HttpRequest, response: HttpResponse, number: int) -> Any:
    """One window."""
    row = _window(auth.who(request), number)
    return conditional.fresh(request, response, conditional.tag(row)) or BlackoutOut.from_orm(row)


@section.get(
    "/blackouts/{int:number}/impact", "blackout_impact", needs=VIEW_BLACKOUT, answer=ImpactOut
)
def blackout_impact(request: HttpRequest, number: int) -> Any:
    """What the window does this week."""
    row = _window(auth.who(request), number)
    found = blackouts.preview(row.scope, row.start, row.end, days=row.days, time_zone=row.time_zone)
    return _impact(found)


section.does(
    "blackout.update",
    "/blackouts/{int:number}",
    "blackout_update",
    answer=BlackoutOut,
    locked=_window,
    show=lambda who, number, row: row,
)


section.does(
    "blackout.delete",
    "/blackouts/{int:number}/delete",
    "blackout_delete",
    answer={204: None},
)
