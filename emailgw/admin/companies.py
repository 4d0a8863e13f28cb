"""Companies: what each has sent and may send, and whether it may."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from emailgw import services, states
from emailgw.admin.base import GatewayAdmin, denying, within
from emailgw.models import Company, OutboxEmail, Status, Usage
from emailgw.people import as_uuid
from jobs.admin import Act, components, principal, tables

CAP = 10_000


def _suspend(suspended: bool) -> Any:
    @denying
    def run(request: HttpRequest, row: Company, given: dict[str, Any]) -> str:
        services.suspend(row.pk, suspended, by=principal(request), reason=given["reason"])
        return _("The company is suspended.") if suspended else _("The company may send.")

    return run


@admin.register(Company)
class CompanyAdmin(GatewayAdmin):
    """The tenants of the gateway."""

    list_template = "emailgw/admin/companies.html"
    page_template = "emailgw/admin/company.html"
    acts = (
        Act("suspend", gettext_lazy("Suspend…"), "emailgw.change_company", _suspend(True),
            lambda r, c: _("It is suspended.") if c.is_suspended else "",
            lambda r, c: [_("Its mail is refused, and what waits fails.")], tone="danger"),
        Act("admit", gettext_lazy("Let it send…"), "emailgw.change_company", _suspend(False),
            lambda r, c: "" if c.is_suspended else _("It is not suspended.")),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        rows = within(request, Company.objects.all(), "id")
        found = tables.page(request, rows, "name", "id")
        listed = [{"c": c, "url": self.page_url(c.pk), "badge": _badge(c)} for c in found["rows"]]
        return {**found, "rows": listed}

    def find(self, request: HttpRequest, key: str) -> Any:
        wanted = as_uuid(key)
        return within(request, Company.objects.all(), "id").filter(pk=wanted).first()

    def page_data(self, request: HttpRequest, row: Company) -> dict[str, Any]:
        used = {u.span: u for u in Usage.objects.filter(company=row)}
        limits = [
            {"span": span, "limit": limit, "used": used[span].used if span in used else 0,
             "since": used[span].began_at if span in used else None}
            for span, limit in row.limits.items()
        ]  # fmt: skip
        return {"c": row, "badge": _badge(row), "limits": limits,
                "tiles": components.tiles(self._tiles(row)),
                "list_buttons": self.buttons(request, row, row.pk)}  # fmt: skip

    def _tiles(self, row: Company) -> list[Any]:
        newest = OutboxEmail.objects.filter(company=row).order_by("-enqueued_at", "id")
        ids = newest.values("pk")[:CAP]
        counted = OutboxEmail.objects.filter(pk__in=ids).aggregate(
            waiting=Count("pk", filter=Q(status__in=states.OPEN, in_doubt=False)),
            sent=Count("pk", filter=Q(status=Status.SENT)),
            failed=Count("pk", filter=Q(status__in=[Status.FAILED, Status.EXPIRED])),
            doubt=Count("pk", filter=Q(in_doubt=True)),
        )
        base = reverse(f"{self.admin_site.name}:emailgw_outboxemail_changelist")
        url = f"{base}?company={row.pk}"
        return [
            components.tile(counted["waiting"], _("under way"), url=url),
            components.tile(counted["sent"], _("sent"), url=f"{url}&status=SENT", tone="green"),
            components.tile(counted["failed"], _("not sent"), url=f"{url}&status=FAILED",
                            tone="red" if counted["failed"] else ""),
            components.tile(counted["doubt"], _("in doubt"), url=f"{url}&status=IN_DOUBT",
                            tone="amber" if counted["doubt"] else ""),
        ]  # fmt: skip


def _badge(row: Company) -> Any:
    label = _("Suspended") if row.is_suspended else None
    return components.badge("paused" if row.is_suspended else "active", label)
