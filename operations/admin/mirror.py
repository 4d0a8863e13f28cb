"""Admin of the mirror."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from jobs.admin import Column, PlainAdmin, Tab, moment, principal
from operations.admin.base import OfAgents
from operations.models import MIRROR, OrderArticle
from operations.verbs import VIEW_MIRROR


class MirrorAdmin(OfAgents):
    """Rows of the mirror."""

    view_permission = VIEW_MIRROR
    order = ("key", "id")
    search = "key"
    search_words = gettext_lazy("A whole key")
    tabs = (Tab("deleted", pgettext_lazy("count", "deleted"), {"deleted_at__isnull": False}),)
    nothing = (
        gettext_lazy("The mirror is empty"),
        gettext_lazy("It is filled by syncs and by writes."),
    )
    long = ("values",)

    def rows(self, request: HttpRequest) -> Any:
        tenants = principal(request).scope.tenants
        rows = PlainAdmin.rows(self, request)
        return rows if tenants is None else rows.filter(agent__tenant__in=sorted(tenants))

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Key"), lambda row: row.key),
            Column(_("Agent"), lambda row: row.agent_id),
            Column(_("Changed"), moment("changed_at"), "jd-quiet"),
        )

    def told(self, row: Any) -> Any:
        return _("The ERP has it no more.") if row.deleted_at else ""

    def parts(self, request: HttpRequest, row: Any) -> Sequence[tuple[Any, str]]:
        lines = "\n".join(f"{name}: {value}" for name, value in row.values.items())
        return [(_("Values"), lines)]


_mirrors: list[Any] = [*MIRROR.values(), OrderArticle]
for _model in _mirrors:
    admin.site.register(_model, MirrorAdmin)
