"""Plain lists: columns, a search by the whole name, tabs; and for each row its facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.utils import quote, unquote
from django.contrib.auth import get_permission_codename
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from jobs.admin import tables
from jobs.admin.access import principal
from jobs.admin.base import PlatformAdmin
from jobs.admin.components import time_tag
from jobs.admin.recent import recent_acts
from jobs.engine import sql

PAGE = 50
LONGEST = 400
"""This many characters of a search are looked at; no name is longer."""


Fact = tuple[Any, Any] | tuple[Any, Any, bool]
"""A label, its value, and whether that is long."""


@dataclass(frozen=True, slots=True)
class Column:
    """What a list shows of each row, and under which label."""

    label: Any
    draw: Callable[[Any], Any]
    css: str = ""
    is_bare: bool = False
    """Whether it says on a narrow screen without its label what it is."""


@dataclass(frozen=True, slots=True)
class Tab:
    """Some of the rows."""

    name: str
    label: Any
    wanted: Mapping[str, Any]


def moment(name: str) -> Callable[[Any], SafeString]:
    """Draws a column that holds a time."""
    return lambda row: time_tag(getattr(row, name))


def job_link(site: str, job_id: object, text: object = None) -> SafeString:
    """The page of the job."""
    url = reverse(f"{site}:jobs_job_change", args=[job_id])
    return format_html('<a class="jd-mono" href="{}">{}</a>', url, text or job_id)


class PlainAdmin(PlatformAdmin):
    """A list of rows with a name, one below the other, and a page of facts for each."""

    list_template = "jobs/admin/plain.html"
    page_template = "jobs/admin/plain_page.html"
    is_of_platform = True
    """Whether its rows concern everybody, so that who sees a part of them sees none."""
    order: Sequence[str] = ()
    """One or two columns, as ``tables.page`` wants them."""
    search = ""
    """The column in which a whole name is looked up; without one, the list has no search."""
    search_words: Any = gettext_lazy("A whole name")
    tabs: Sequence[Tab] = ()
    nothing: tuple[Any, Any] = ("", "")
    """What an empty list says, and what it advises."""
    long: Sequence[str] = ()
    """Columns that only the page of a row shows."""
    is_live = False
    """Whether the page of a row is updated while somebody looks at it."""
    audit_kind = ""
    """As what the audit knows its rows, and their names as ids."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if self.is_of_platform and not principal(request).scope.is_everything:
            return False
        name = get_permission_codename("view", self.opts)
        return request.user.has_perm(f"{self.opts.app_label}.{name}")

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        """What the list shows; the first one is the name."""
        return ()

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Fact]:
        """What the page shows, by its label."""
        return ()

    def parts(self, request: HttpRequest, row: Any) -> Sequence[tuple[Any, str]]:
        """What the page shows at length, by its label; what is empty is left out."""
        return ()

    def look(self, row: Any) -> str:
        """The state whose badge the row wears, or nothing."""
        return ""

    def told(self, row: Any) -> Any:
        """What is said below the name, and above the facts."""
        return ""

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        """All that may be seen."""
        found: QuerySet[Any] = self.model._default_manager.using(sql.alias())
        return found

    def wanted(self, text: str) -> Any:
        """What is looked up, or None where the text cannot be any."""
        return text[:LONGEST]

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        text = request.GET.get("q", "").strip() if self.search else ""
        state = request.GET.get("state", "")
        found = self._found(request, text, state)
        columns = self.columns(request)
        title, advice = self.nothing
        return {
            **found,
            "rows": [self._row(request, columns, row) for row in found["rows"]],
            "columns": columns,
            "has_state": any(self.look(row) for row in found["rows"]),
            "q": text,
            "state": state,
            "search_words": self.search_words if self.search else "",
            "tabs": [(tab, _query(state=tab.name, q=text), tab.name == state) for tab in self.tabs],
            "every": _query(q=text) if self.tabs else "",
            "is_narrowed": bool(text or state),
            "nothing": title,
            "advice": advice,
            "list_buttons": self.list_buttons(request),
            "jd_regions": {"jd-plain": "jobs/admin/parts/plain.html"},
        }

    def _found(self, request: HttpRequest, text: str, state: str) -> dict[str, Any]:
        rows = self.rows(request).defer(*self.long)
        for tab in self.tabs:
            if tab.name == state:
                rows = rows.filter(**tab.wanted)
        if text:
            rows = _of(rows, self.search, self.wanted(text))
        return tables.page(request, rows, *self.order, size=PAGE)

    def _row(self, request: HttpRequest, columns: Sequence[Column], row: Any) -> dict[str, Any]:
        key = quote(row.pk)
        return {
            "key": key,
            "name": str(row),
            "url": self.page_url(key),
            "look": self.look(row),
            "told": self.told(row),
            "cells": [(column, column.draw(row)) for column in columns],
            "buttons": self.buttons(request, row, key),
        }

    def find(self, request: HttpRequest, key: str) -> Any:
        return _of(self.rows(request), "pk", unquote(key)).first()

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        site = self.admin_site.name
        return {
            "title": str(self.columns(request)[0].draw(row)),
            "look": self.look(row),
            "told": self.told(row),
            "facts": self.facts(request, row),
            "parts": [(label, text) for label, text in self.parts(request, row) if text],
            "buttons": self.buttons(request, row, quote(row.pk)),
            "acts": recent_acts(
                request, site, target_kind=self.audit_kind, target_id=str(row.pk)
            ) if self.audit_kind else None,
            "jd_regions": {"jd-row": "jobs/admin/parts/plain_page.html"} if self.is_live else {},
        }  # fmt: skip


def _of(rows: QuerySet[Any], field: str, wanted: Any) -> QuerySet[Any]:
    """Return the rows with this value; none where it cannot be one."""
    if wanted is None or (isinstance(wanted, str) and "\x00" in wanted):
        return rows.none()
    try:
        return rows.filter(**{field: wanted})
    except (ValidationError, ValueError):
        return rows.none()


def _query(**given: str) -> str:
    return "?" + urlencode({name: value for name, value in given.items() if value})
