"""What the pages of the app have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from jobs.admin import Button, PlainAdmin, Tab, principal
from operations.permissions import within
from operations.verbs import VIEW_OPERATION


class OfAgents(PlainAdmin):
    """Base of pages whose rows belong to the tenant of an agent."""

    is_of_platform = False
    view_permission = VIEW_OPERATION
    listed: Sequence[str] = ()
    """Acts that the list offers for each row."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return principal(request).may(self.view_permission)

    def rows(self, request: HttpRequest) -> Any:
        return within(principal(request), super().rows(request))

    def operation_link(self, id: Any) -> Any:
        """Return a link to the page of an operation."""
        url = reverse(f"{self.admin_site.name}:operations_operation_change", args=[id])
        return format_html('<a class="jd-mono" href="{}">{}</a>', url, id)

    def agent_link(self, agent: str) -> Any:
        """Return a link to the page of an agent."""
        url = reverse(f"{self.admin_site.name}:operations_agent_change", args=[agent])
        return format_html('<a href="{}">{}</a>', url, agent)

    def facts(self, request: HttpRequest, row: Any) -> Sequence[tuple[Any, Any]]:
        return [(column.label, column.draw(row)) for column in self.columns(request)[1:]]

    def buttons(
        self, request: HttpRequest, row: Any, key: object, names: Sequence[str] = ()
    ) -> list[Button]:
        """Offer what the state of the row allows; lists have room for what is ``listed``."""
        match = request.resolver_match
        if match is not None and match.url_name == self.view_name("changelist"):
            if not self.listed:
                return []
            names = self.listed
        fitting = [act.name for act in self.row_acts() if not act.forbidden(request, row)]
        wanted = [name for name in fitting if not names or name in names]
        return super().buttons(request, row, key, wanted) if wanted else []


def tabs(choices: Any, name: str, wanted: Sequence[Any]) -> tuple[Tab, ...]:
    """Return a tab for each of these choices of a column."""
    return tuple(Tab(str(one), choices(one).label, {name: one}) for one in wanted)
