"""Blackout windows."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema, Status

from jobs.api import auth, conditional, sight
from jobs.api.endpoints import In, Section
from jobs.api.schemas import WhyIn
from jobs.engine import sql
from jobs.models import Blackout
from jobs.operate import blackouts, targets
from jobs.principals import Principal

section = Section("blackouts")
_MANAGE = "manage_blackout"


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
        raise targets.unknown("blackout", number)
    return row


def _impact(found: blackouts.Preview) -> dict[str, Any]:
    told = {name: getattr(found, name) for name in ("begin", "end", "spans", "active_until")}
    return {**told, "held": found.impact.held, "more": found.impact.more}


@section.get("/blackouts", "blackout_list", needs="view_blackout", answer=list[BlackoutOut])
def blackout_list(request: HttpRequest) -> Any:
    """Blackout windows."""
    who = auth.who(request)
    rows = Blackout.objects.using(sql.alias()).order_by("scope", "start", "id")[:1000]
    return [row for row in rows if sight.is_visible(who, "scope", row.scope)]


@section.post(
    "/blackouts", "blackout_create", needs=_MANAGE, answer={201: BlackoutOut},
    verb="blackout.create",
)  # fmt: skip
def blackout_create(request: HttpRequest, body: BlackoutIn) -> Any:
    """The window exists and, where it is open now, holds at once."""
    values = body.model_dump()
    return Status(201, blackouts.create(by=auth.who(request), **values))


@section.post("/blackouts/preview", "blackout_preview", needs="view_blackout", answer=ImpactOut)
def blackout_preview(request: HttpRequest, body: WindowIn) -> Any:
    """What such a window would do; nothing is written."""
    sight.check_scope(auth.who(request), body.scope)
    return _impact(blackouts.preview(**body.model_dump()))


@section.get("/blackouts/{int:number}", "blackout_get", needs="view_blackout", answer=BlackoutOut)
def blackout_get(request: HttpRequest, response: HttpResponse, number: int) -> Any:
    """One window."""
    row = _window(auth.who(request), number)
    return conditional.fresh(request, response, conditional.tag(row)) or BlackoutOut.from_orm(row)


@section.get(
    "/blackouts/{int:number}/impact", "blackout_impact", needs="view_blackout", answer=ImpactOut
)
def blackout_impact(request: HttpRequest, number: int) -> Any:
    """What the window does this week."""
    row = _window(auth.who(request), number)
    found = blackouts.preview(row.scope, row.start, row.end, days=row.days, time_zone=row.time_zone)
    return _impact(found)


@section.patch(
    "/blackouts/{int:number}", "blackout_update", needs=_MANAGE, answer=BlackoutOut,
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


@section.post(
    "/blackouts/{int:number}/delete", "blackout_delete", needs=_MANAGE, answer={204: None},
    verb="blackout.delete",
)  # fmt: skip
def blackout_delete(request: HttpRequest, number: int, body: WhyIn) -> Any:
    """The window is gone; what it held may start."""
    blackouts.delete(number, by=auth.who(request), reason=body.reason)
    return Status(204, None)
