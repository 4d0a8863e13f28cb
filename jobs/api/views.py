"""Saved views: queries of the list of jobs under names."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema, Status

from jobs.api import auth, conditional
from jobs.api.endpoints import In, Section
from jobs.api.schemas import MaybeWhyIn
from jobs.engine import sql
from jobs.models import SavedView
from jobs.operate import sight, views

section = Section("views")
One = "/views/{int:view_id}"
Tab = Literal[
    "all", "scheduled", "waiting", "running", "retrying", "succeeded", "dead", "cancelled"
]


class ViewOut(Schema):
    """A query of the list of jobs, and its tab."""

    id: int
    name: str
    query: str
    tab: Tab
    tenant: str
    is_shared: bool
    owner: str
    created_at: datetime


class ViewIn(In):
    """What is kept; a shared view is shown to whoever sees the tenant, or all tenants."""

    name: str = Field(min_length=1, max_length=80)
    query: str = Field("", max_length=2000)
    tab: Tab = "all"
    shared: bool = False
    tenant: str = Field("", max_length=120)
    reason: str = Field("", max_length=500)


class ViewPatch(In):
    """What is to be another."""

    name: str | None = Field(None, min_length=1, max_length=80)
    query: str | None = Field(None, max_length=2000)
    tab: Tab | None = None
    shared: bool | None = None
    reason: str = Field("", max_length=500)


def _told(row: SavedView) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ViewOut.model_fields}


@section.get("/views", "view_list", needs="view_job", answer=list[ViewOut])
def view_list(request: HttpRequest) -> Any:
    """Your own views and those that are shared with you, by name."""
    return [_told(row) for row in views.every(by=auth.who(request))]


@section.get(One, "view_get", needs="view_job", answer=ViewOut)
def view_get(request: HttpRequest, response: HttpResponse, view_id: int) -> Any:
    """One view."""
    row = views.find(view_id, by=auth.who(request))
    return conditional.fresh(request, response, conditional.tag(row)) or _told(row)


@section.post("/views", "view_save", needs="save_view", answer={201: ViewOut}, verb="view.save")
def view_save(request: HttpRequest, response: HttpResponse, body: ViewIn) -> Any:
    """The query is kept under the name."""
    who = auth.who(request)
    if body.tenant:
        sight.check_tenant(who, body.tenant)
    made = views.save(by=who, **body.model_dump())
    response["Location"] = f"{request.path}/{made.pk}"
    return Status(201, _told(made))


@section.patch(One, "view_edit", needs="save_view", answer=ViewOut, verb="view.edit")
def view_edit(request: HttpRequest, view_id: int, body: ViewPatch) -> Any:
    """Other values; If-Match says which ones you have seen."""
    who = auth.who(request)
    views.find(view_id, by=who)
    rows = SavedView.objects.using(sql.alias()).select_for_update()
    conditional.check(request, rows.get(pk=view_id))
    return _told(views.edit(view_id, by=who, **body.model_dump()))


@section.post(
    One + "/remove", "view_remove", needs="save_view", answer={204: None}, verb="view.remove"
)
def view_remove(request: HttpRequest, view_id: int, body: MaybeWhyIn) -> Any:
    """The view is gone; no job is touched."""
    views.remove(view_id, by=auth.who(request), reason=body.reason)
    return Status(204, None)
