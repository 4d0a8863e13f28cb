"""The audit: who did what, when, why, and what was denied. Nothing here can be changed."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _

from jobs.admin import tables
from jobs.admin.access import visible
from jobs.admin.base import PlatformAdmin, as_uuid
from jobs.admin.copying import api, cli
from jobs.admin.recent import outcome_look, target_url
from jobs.admin.words import look
from jobs.engine import sql
from jobs.models import Audit

FILTERS = {"actor": "actor", "action": "action", "target": "target_id", "outcome": "outcome"}
OUTCOMES = ("done", "denied", "refused")


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
        return {
            **found,
            "title": _("Audit"),
            "rows": listed,
            "given": given,
            "is_narrowed": any(given.values()),
            "api": api("audit_list"),
            "cli": cli("audit", "list"),
            "outcomes": [(name, look(outcome_look(name)).label) for name in OUTCOMES],
        }

    def find(self, request: HttpRequest, key: str) -> Any:
        wanted = as_uuid(key)
        return self._rows(request).filter(pk=wanted).first() if wanted else None

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {
            "title": row.action,
            "a": row,
            "look": outcome_look(row.outcome),
            "url": target_url(self.admin_site.name, row),
            **differences(row.detail),
        }


def differences(detail: Any) -> dict[str, Any]:
    """What an act has changed, value by value, and what else was noted of it."""
    noted = dict(detail) if isinstance(detail, dict) else {}
    before, after = noted.pop("before", None) or {}, noted.pop("after", None) or {}
    return {
        "changes": [
            {"name": name, "before": in_line(before.get(name)), "after": in_line(after.get(name))}
            for name in {**before, **after}
        ],
        "notes": [
            (name, in_line(value))
            for name, value in sorted(noted.items())
            if value not in (None, "", [], {})
        ],
    }


def in_line(value: Any) -> str:
    """A value as one line; a dash for none."""
    if value is None or value == "" or value in ([], {}):
        return "—"
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list) and not any(isinstance(one, list | dict) for one in value):
        return ", ".join(in_line(one) for one in value)
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return str(value)
