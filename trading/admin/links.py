"""Pages of linked accounts and of imports."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import Act, Reason, charts, components, principal
from jobs.verbs import permissions
from trading import services
from trading.admin.base import Column, TradingAdmin, badge, cells, headings, sentence
from trading.models import BrokerConnection, ImportRun
from trading.permissions import USE


class LinkForm(Reason):
    """Form to link one's own account."""

    key_name = forms.CharField(label=gettext_lazy("Key name"), max_length=300)
    secret = forms.CharField(
        label=gettext_lazy("Private key"), max_length=4000, strip=False,
        widget=forms.Textarea(attrs={"autocomplete": "off", "rows": 6, "spellcheck": "false"}),
    )  # fmt: skip
    may_trade = forms.BooleanField(
        label=gettext_lazy("Link the key even if it may trade"), required=False
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["reason"]


def _link(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    key_name, secret = given["key_name"], given["secret"]
    rights = services.read_rights(key_name, secret, may_trade=given["may_trade"])
    by = principal(request)
    services.link(int(by.user_id), key_name, secret, rights, by=by)
    return _("The account is linked.")


@admin.register(BrokerConnection)
class LinkAdmin(TradingAdmin):
    """Admin of the linked accounts."""

    nouns = ("link",)
    columns = (
        Column(gettext_lazy("Status"), lambda row: badge(row.status, row.get_status_display())),
        Column(gettext_lazy("Account"), str),
        Column(gettext_lazy("Last import"), lambda row: components.time_tag(row.imported_at)),
        Column(gettext_lazy("Daily import"), lambda row: _("yes") if row.is_daily else _("no")),
        Column(gettext_lazy("Error"), lambda row: sentence(row.error)),
    )
    empty = gettext_lazy("No account is linked yet")
    advice = gettext_lazy("Link one with a key that may only read.")
    list_acts = (
        Act("link", gettext_lazy("Link an account…"), _link, needs=USE, form=LinkForm,
            tone="primary", consequences=lambda r, row: [
                _("The venue is asked what the key may do; a key that may withdraw is refused."),
                _("The key is kept encrypted and is never shown.")]),
    )  # fmt: skip

    def rows(self, request: HttpRequest) -> Any:
        return super().rows(request).defer("key_name", "secret")

    def page_data(self, request: HttpRequest, row: BrokerConnection) -> dict[str, Any]:
        runs = ImportRun.objects.filter(connection=row).order_by("-created_at")[:20]
        return {
            "title": str(row), "badge": badge(row.status, row.get_status_display()),
            "facts": [
                (_("Rights"), _("read and trade") if row.can_trade else _("read only")),
                (_("Daily import"), _("yes") if row.is_daily else _("no")),
                (_("Linked"), components.time_tag(row.created_at)),
                (_("Last import"), components.time_tag(row.imported_at)),
                *([(_("Error"), sentence(row.error))] if row.error else []),
            ],
            "tables": [{
                "title": _("Imports"), "columns": headings(ImportAdmin.columns),
                "rows": [cells(ImportAdmin.columns, run) for run in runs],
                "empty": _("No import yet"),
            }],
            "list_buttons": self.buttons(request, row, row.pk),
        }  # fmt: skip


@admin.register(ImportRun)
class ImportAdmin(TradingAdmin):
    """Admin of the imports; the page of an import follows it live."""

    columns = (
        Column(gettext_lazy("State"), lambda row: badge(row.state, row.get_state_display())),
        Column(gettext_lazy("Started"), lambda row: components.moment(row.created_at)),
        Column(gettext_lazy("Progress"), lambda row: charts.meter(row.percent, 100)),
        Column(gettext_lazy("Fetched"), lambda row: components.number(row.fetched)),
        Column(gettext_lazy("New"), lambda row: components.number(row.stored)),
        Column(gettext_lazy("Conflicts"), lambda row: components.number(row.conflicts)),
        Column(gettext_lazy("Error"), lambda row: sentence(row.error)),
    )
    empty = gettext_lazy("No import yet")
    advice = gettext_lazy("Link an account and import its fills.")

    def page_data(self, request: HttpRequest, row: ImportRun) -> dict[str, Any]:
        job = ""
        if principal(request).may(permissions.VIEW_JOB):
            job = reverse(f"{self.admin_site.name}:jobs_job_change", args=[row.pk])
        return {
            "title": _("Import of %(account)s") % {"account": row.connection},
            "jd_regions": {"jd-import": "trading/admin/facts.html"},
            "facts": [
                (_("State"), badge(row.state, row.get_state_display())),
                (_("Progress"), charts.meter(row.percent, 100)),
                (_("Since"), components.moment(row.since)),
                (_("Pages"), components.number(row.pages)),
                (_("Fetched"), components.number(row.fetched)),
                (_("New"), components.number(row.stored)),
                (_("Conflicts"), components.number(row.conflicts)),
                (_("Skipped"), components.number(row.skipped)),
                (_("Started"), components.time_tag(row.created_at)),
                (_("Ended"), components.time_tag(row.ended_at)),
                *([(_("Error"), sentence(row.error))] if row.error else []),
            ],
            "job": job,
        }  # fmt: skip
