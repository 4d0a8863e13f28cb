"""Addresses to which nothing is sent: adding them, and writing to them again."""

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
from emailgw.people import as_uuid
from jobs.admin import Act, Reason, principal, tables
from jobs.fields import mask_email


class AddForm(Reason):
    """Which address of whose mail; whoever sees all companies may leave the company out."""

    email = forms.CharField(label=gettext_lazy("Address"), max_length=254)
    company = forms.ModelChoiceField(
        Company.objects.none(), label=gettext_lazy("Company"), required=False,
        help_text=gettext_lazy("Empty means that nobody writes to it."),
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
    return _("Nothing is sent to the address any more.")


@denying
def _lift(request: HttpRequest, row: Suppression, given: dict[str, Any]) -> tuple[str, str]:
    services.lift_suppression(
        row.company_id, row.email, by=principal(request), reason=given["reason"]
    )
    return _("The address is written to again."), reverse("admin:emailgw_suppression_changelist")


@admin.register(Suppression)
class SuppressionAdmin(GatewayAdmin):
    """The suppression list."""

    list_template = "emailgw/admin/suppressions.html"
    page_template = "emailgw/admin/suppression.html"
    list_acts = (
        Act("add", gettext_lazy("Suppress an address…"), "emailgw.change_suppression", _add,
            form=AddForm, tone="primary"),
    )  # fmt: skip
    acts = (Act("lift", gettext_lazy("Write to it again…"), "emailgw.change_suppression", _lift),)

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
