"""Pages of linked accounts and of imports."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from jobs.admin import charts, components, principal
from jobs.verbs import permissions
from trading.admin.base import Column, TradingAdmin, badge, cells, headings, sentence
from trading.admin.linkacts import ACTS, NEW
from trading.models import Broker, BrokerConnection, ImportRun
from trading.permissions import VIEW


@admin.register(BrokerConnection)
class LinkAdmin(TradingAdmin):
    """Admin of the linked accounts."""

    nouns = ("link",)
    columns = (
        Column(gettext_lazy("Status"), lambda row: badge(row.status, row.get_status_display())),
        Column(pgettext_lazy("venue", "Account"), str),
        Column(gettext_lazy("Last import"), lambda row: components.time_tag(row.imported_at)),
        Column(gettext_lazy("Daily import"), lambda row: _("yes") if row.is_daily else _("no")),
        Column(gettext_lazy("Error"), lambda row: sentence(row.error)),
    )
    empty = gettext_lazy("No account is linked yet")
    advice = gettext_lazy("Link one with a key that may only read.")
    acts = ACTS
    list_acts = NEW

    def rows(self, request: HttpRequest) -> Any:
        return super().rows(request).defer(*BrokerConnection.SECRETS)

    def page_data(self, request: HttpRequest, row: BrokerConnection) -> dict[str, Any]:
        runs = ImportRun.objects.filter(connection=row).order_by("-created_at")[:20]
        return {
            "title": str(row), "badge": badge(row.status, row.get_status_display()),
            "facts": [
                (_("Rights"), _("read and trade") if row.can_trade else _("read only")),
                *([(_("Markets"), ", ".join(row.symbols) or _("none"))]
                  if row.broker == Broker.BINANCE else []),
                (_("Daily import"), _("yes") if row.is_daily else _("no")),
                (_("Linked"), components.time_tag(row.created_at)),
                (_("Last import"), components.time_tag(row.imported_at)),
                *([(_("Error"), sentence(row.error))] if row.error else []),
            ],
            "tables": [{
                "title": _("Imports"), "columns": headings(ImportAdmin.columns),
                "rows": [self._shown(request, run) for run in runs],
                "empty": _("No import yet"),
            }],
            "list_buttons": self.buttons(request, row, row.pk),
        }  # fmt: skip

    def _shown(self, request: HttpRequest, run: ImportRun) -> list[Any]:
        """Return the cells of an import; the time leads to its page for those who may see it."""
        found = cells(ImportAdmin.columns, run)
        if principal(request).may(VIEW["importrun"]):
            page = reverse(f"{self.admin_site.name}:trading_importrun_change", args=[run.pk])
            found[1] = format_html('<a href="{}">{}</a>', page, found[1])
        return found


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
