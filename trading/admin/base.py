"""Shared parts of the pages: permissions, scope, cells and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from jobs.admin import PlatformAdmin, components, principal, tables
from trading.errors import SENTENCES
from trading.permissions import users_of

BADGES = {
    "active": "active", "paused": "paused", "revoked": "cancelled", "INIT": "pending",
    "RETRY": "retrying", "DONE": "succeeded", "FAILED": "failed", "FOMO": "failed",
    "PANIC": "expired", "DISCIPLINE": "succeeded", "NEUTRAL": "cancelled",
}  # fmt: skip


def badge(value: str, label: Any) -> SafeString:
    """Render a state or a label; what is not listed is in progress."""
    return components.badge(BADGES.get(value, "running"), capfirst(str(label)))


def sentence(code: str) -> str:
    """Return the sentence of an error code; empty without one."""
    return str(SENTENCES.get(code, code)) if code else ""


def acting_user(request: HttpRequest) -> int:
    """Return the user who is logged in."""
    return int(principal(request).user_id)


class Column(NamedTuple):
    """A column of a list: its heading, and what it shows of a row."""

    heading: Any
    cell: Callable[[Any], Any]


def headings(columns: Iterable[Column]) -> list[Any]:
    """Return the headings of a table."""
    return [column.heading for column in columns]


def cells(columns: Iterable[Column], row: Any) -> list[Any]:
    """Return what a table shows of a row."""
    return [column.cell(row) for column in columns]


class TradingAdmin(PlatformAdmin):
    """Base of the pages: rows of the users within the caller's scope."""

    list_template = "trading/admin/list.html"
    page_template = "trading/admin/page.html"
    order: tuple[str, ...] = ("-created_at", "-id")
    columns: tuple[Column, ...] = ()
    """The cell of the second column links to the page of the row."""
    empty: Any = ""
    advice: Any = ""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return principal(request).may(f"trading.view_{self.opts.model_name}")

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows that the caller may see."""
        found: QuerySet[Any] = self.model._default_manager.select_related("user")
        users = users_of(principal(request))
        return found if users is None else found.filter(user_id__in=users)

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        found = tables.page(request, self.narrowed(request, self.rows(request)), *self.order)
        listed = [
            {"cells": cells(self.columns, row), "url": self.page_url(row.pk)}
            for row in found["rows"]
        ]
        return {**found, "rows": listed, "columns": headings(self.columns), "empty": self.empty,
                "advice": self.advice, "filters": self.filters(request),
                "list_buttons": self.list_buttons(request)}  # fmt: skip

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match the filters of the address."""
        return rows

    def filters(self, request: HttpRequest) -> list[dict[str, Any]]:
        """Return the fields of the search form."""
        return []

    def find(self, request: HttpRequest, key: str) -> Any:
        try:
            wanted: Any = UUID(key) if self.opts.pk.get_internal_type() == "UUIDField" else int(key)
        except ValueError:
            return None
        if isinstance(wanted, int) and not 0 < wanted < 2**63:
            return None
        return self.rows(request).filter(pk=wanted).first()
