"""Admin of the suppression list: adding and removing addresses."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from emailgw import services
from emailgw.admin.base import GatewayAdmin, denying, within
from emailgw.models import Company, Suppression
from emailgw.permissions import as_uuid
from jobs.admin import Act, Reason, principal, tables
from jobs.fields import mask_email


class AddForm(Reason):
    """Form to suppress an address; without a company, for every company."""

    email = forms.CharField(label=gettext_lazy("Address"), max_length=254)
    company = forms.ModelChoiceField(
        Company.objects.none(), label=gettext_lazy("Company"), required=False,
        help_text=gettext_lazy("Leave empty to suppress it for every company."),
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        companies: Any = self.fields["company"]
        companies.queryset = within(self.request, Company.objects.order_by("name"), "id")


@denying
def _add(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    company = given["company"].pk if given["company"] else None
    services.add_suppression(
        company, given["email"].strip().lower(), by=principal(request), reason=given["reason"]
    )
    return _("The address is suppressed.")


@denying
def _lift(request: HttpRequest, row: Suppression, given: dict[str, Any]) -> tuple[str, str]:
    services.lift_suppression(
        row.company_id, row.email, by=principal(request), reason=given["reason"]
    )
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
        Act("add", gettext_lazy("Suppress an address…"), _add,
            form=AddForm, tone="primary", verb="suppression.add"),
    )  # fmt: skip
    acts = (Act("lift", gettext_lazy("Remove from the list…"), _lift, verb="suppression.lift",
                many=True),)  # fmt: skip

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
