"""Saved views: queries of the list of jobs under names."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Schema

from jobs.api import auth, conditional
from jobs.api.sections import Section
from jobs.models import SavedView
from jobs.operate import views
from jobs.operate.permissions import VIEW_JOB
from jobs.principals import Principal

section = Section("views", {"view": "/views"})
One = "/views/{int:view_id}"


class ViewOut(Schema):
    """A query of the list of jobs, and its tab."""

    id: int
    name: str
    query: str
    tab: views.Tab
    tenant: str
    is_shared: bool
    owner: str
    created_at: datetime


def _told(row: SavedView) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ViewOut.model_fields}


@section.get("/views", "view_list", needs=VIEW_JOB, answer=list[ViewOut])
def view_list(request: HttpRequest) -> Any:
    """Your own views and those that are shared with you, by name."""
    return [_told(row) for row in views.every(by=auth.who(request))]


@section.get(One, "view_get", needs=VIEW_JOB, answer=ViewOut)
def view_get(request: HttpRequest, response: HttpResponse, view_id: int) -> Any:
    """One view."""
    row = views.find(view_id, by=auth.who(request))
    return conditional.fresh(request, response, conditional.tag(row)) or _told(row)


def _shown(who: Principal, view_id: int | None, row: SavedView) -> Any:
    return _told(row)


section.does(
    "view.save", "/views", "view_save", answer={201: ViewOut}, location="/views/{id}", show=_shown
)


section.does(
    "view.edit",
    One,
    "view_edit",
    answer=ViewOut,
    locked=lambda who, view_id: views.find(view_id, by=who),
    show=_shown,
)


section.does(
    "view.remove",
    One + "/remove",
    "view_remove",
    answer={204: None},
)
