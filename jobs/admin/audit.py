"""The audit: who did what, when, why, and what was denied. Nothing here can be changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _

from jobs.admin import tables
from jobs.admin.access import visible
from jobs.admin.base import PlatformAdmin, as_uuid
from jobs.admin.components import pretty
from jobs.admin.copying import api, cli
from jobs.admin.recent import outcome_look, target_url
from jobs.engine import sql
from jobs.models import Audit

FILTERS = {"actor": "actor", "action": "action", "target": "target_id", "outcome": "outcome"}


@admin.register(Audit)
class AuditAdmin(PlatformAdmin):
    """What people did."""

    list_template = "jobs/admin/audit.html"
    page_template = "jobs/admin/audit_entry.html"

    def _rows(self, request: HttpRequest) -> Any:
        return visible(request, Audit.objects.using(sql.alias()).all())

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        given = {name: request.GET.get(name, "").strip()[:200] for name in FILTERS}
        rows = self._rows(request).filter(**{FILTERS[n]: v for n, v in given.items() if v})
        found = tables.page(request, rows, "-at", "-id")
        site = self.admin_site.name
        listed = [{"act": a, "url": target_url(site, a), "page": self.page_url(a.pk),
                   "look": outcome_look(a.outcome)} for a in found["rows"]]  # fmt: skip
        return {**found, "title": _("Audit"), "rows": listed, "given": given,
                "api": api("audit_list"), "cli": cli("audit", "list"),
                "outcomes": ("done", "denied", "refused")}  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        wanted = as_uuid(key)
        return self._rows(request).filter(pk=wanted).first() if wanted else None

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {"title": row.action, "a": row, "look": outcome_look(row.outcome),
                "url": target_url(self.admin_site.name, row), "detail": pretty(row.detail)}  # fmt: skip  # noqa: E501
