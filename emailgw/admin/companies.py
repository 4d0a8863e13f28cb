"""Admin of companies: their usage, their limits, and suspending them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from emailgw.admin.base import GatewayAdmin, tiles, within
from emailgw.models import Company, OutboxEmail
from emailgw.permissions import as_uuid
from emailgw.services.limits import current
from jobs.admin import Act, components, tables

SPANS = {
    "minute": gettext_lazy("minute"), "hour": gettext_lazy("hour"), "day": gettext_lazy("day"),
}  # fmt: skip


@admin.register(Company)
class CompanyAdmin(GatewayAdmin):
    """Admin of the companies."""

    list_template = "emailgw/admin/companies.html"
    page_template = "emailgw/admin/company.html"
    nouns = ("company",)
    acts = (
        Act("suspend", gettext_lazy("Suspend…"), None,
            lambda r, c: _("It is suspended.") if c.is_suspended else "",
            lambda r, c: [_("New emails are refused, and waiting emails fail.")], tone="danger",
            verb="company.suspend", many=True, done=gettext_lazy("The company is suspended.")),
        Act("admit", gettext_lazy("Allow sending…"), None,
            lambda r, c: "" if c.is_suspended else _("It is not suspended."),
            verb="company.admit", many=True,
            done=gettext_lazy("The company can send again.")),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        rows = within(request, Company.objects.all(), "id")
        found = tables.page(request, rows, "name", "id")
        listed = [{"c": c, "url": self.page_url(c.pk), "badge": _badge(c)} for c in found["rows"]]
        return {**found, "rows": listed, "list_buttons": self.list_buttons(request)}

    def find(self, request: HttpRequest, key: str) -> Any:
        wanted = as_uuid(key)
        return within(request, Company.objects.all(), "id").filter(pk=wanted).first()

    def page_data(self, request: HttpRequest, row: Company) -> dict[str, Any]:
        emails = reverse(f"{self.admin_site.name}:emailgw_outboxemail_changelist")
        used = current(row)
        limits = [
            {"name": SPANS[span], "limit": limit, "used": used[span].used if span in used else 0,
             "since": used[span].began_at if span in used else None}
            for span, limit in row.limits.items()
        ]  # fmt: skip
        mail = OutboxEmail.objects.filter(company=row)
        return {"c": row, "badge": _badge(row), "limits": limits,
                "tiles": tiles(mail, f"{emails}?company={row.pk}"),
                "list_buttons": self.buttons(request, row, row.pk)}  # fmt: skip


def _badge(row: Company) -> Any:
    label = _("Suspended") if row.is_suspended else None
    return components.badge("paused" if row.is_suspended else "active", label)
