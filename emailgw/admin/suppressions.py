"""Admin of the suppression list: adding and removing addresses."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from emailgw.admin.base import GatewayAdmin, within
from emailgw.models import Company, Suppression
from emailgw.permissions import as_uuid
from jobs.admin import Act, Reason, Words, tables
from jobs.fields import mask_email


def _companies(form: Reason) -> dict[str, str]:
    """Return the names of the companies to choose from, by id."""
    rows = within(form.request, Company.objects.order_by("name"), "id")
    return {str(row.pk): row.name for row in rows}


class AddForm(Reason):
    """Form to suppress an address; without a company, for every company."""

    words = {
        "email": Words(gettext_lazy("Address")),
        "company": Words(
            gettext_lazy("Company"), gettext_lazy("Leave empty to suppress it for every company."),
            choices=_companies,
        ),
    }  # fmt: skip
    field_order = ("email", "company")


def _entry(request: HttpRequest, row: Suppression, given: dict[str, Any]) -> dict[str, Any]:
    return {"company": row.company_id, "email": row.email}


def _lifted(request: HttpRequest, row: Suppression, done: None) -> tuple[str, str]:
    return _("The address is no longer suppressed."), reverse(
        "admin:emailgw_suppression_changelist"
    )


@admin.register(Suppression)
class SuppressionAdmin(GatewayAdmin):
    """Admin of the suppression list."""

    list_template = "emailgw/admin/suppressions.html"
    page_template = "emailgw/admin/suppression.html"
    nouns = ("suppression",)
    list_acts = (
        Act("add", gettext_lazy("Suppress an address…"), form=AddForm, tone="primary",
            verb="suppression.add", done=gettext_lazy("The address is suppressed.")),
    )  # fmt: skip
    acts = (Act("lift", gettext_lazy("Remove from the list…"), given=_entry, show=_lifted,
                verb="suppression.lift", many=True),)  # fmt: skip

    def _rows(self, request: HttpRequest) -> Any:
        return within(request, Suppression.objects.select_related("company"))

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        found = tables.page(request, self._rows(request), "-created_at", "-id")
        return {**found, "rows": self._shown(request, found["rows"]),
                "list_buttons": self.list_buttons(request)}  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        wanted = as_uuid(key)
        return self._rows(request).filter(pk=wanted).first() if wanted else None

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {"s": row, "list_buttons": self.buttons(request, row, row.pk)}

    def _shown(self, request: HttpRequest, rows: list[Any]) -> list[dict[str, Any]]:
        return [{"s": s, "email": mask_email(s.email), "url": self.page_url(s.pk),
                 "buttons": self.buttons(request, s, s.pk)} for s in rows]  # fmt: skip
