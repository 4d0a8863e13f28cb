"""Pages of digests."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import charts, components
from trading.admin.base import Column, TradingAdmin
from trading.admin.figures import label_of, rule_of
from trading.models import Digest

TONES = {"FOMO": "red", "PANIC": "amber", "DISCIPLINE": "green", "NEUTRAL": "blue"}


@admin.register(Digest)
class DigestAdmin(TradingAdmin):
    """Admin of the digests."""

    order = ("-period_end", "-id")
    columns = (
        Column(gettext_lazy("User"), lambda row: str(row.user)),
        Column(gettext_lazy("Week"), str),
        Column(gettext_lazy("Orders"), lambda row: components.number(row.payload["orders"])),
        Column(gettext_lazy("Win rate"), lambda row: _rate(row.payload)),
        Column(gettext_lazy("Profit"), lambda row: _totals(row.payload)),
        Column(gettext_lazy("Written"), lambda row: components.time_tag(row.created_at)),
    )
    empty = gettext_lazy("There is no digest yet")
    advice = gettext_lazy("Digests are written on Mondays.")

    def page_data(self, request: HttpRequest, row: Digest) -> dict[str, Any]:
        found = row.payload
        labels = [(name, n) for name, n in found["counts"].items() if n]
        parts = [charts.Part(label_of(name), n, TONES.get(name, "violet")) for name, n in labels]
        return {
            "title": _("Digest of %(week)s") % {"week": row},
            "insight": _(found["suggestion"]["text"]),
            "chart": charts.stacked(parts, found["orders"], _("Orders by label")) if parts else "",
            "legend": charts.legend(parts) if parts else "",
            "facts": [
                (_("User"), str(row.user)), (_("Orders"), components.number(found["orders"])),
                (_("Win rate"), _rate(found)),
                (_("Hours held"), found["holdingHours"] or "—"),
                (_("Profit"), _totals(found)),
                (_("Fees"), ", ".join(f"{n} {a}" for a, n in found["fees"].items()) or "—"),
                (_("Snapshot"), row.storage_key),
            ],
            "tables": [
                {"title": _("Profit by label"), "columns": [_("Currency"), _("Label"), _("Profit")],
                 "rows": [[quote, label_of(label), amount] for quote, one in found["profit"].items()
                          for label, amount in one["byLabel"].items()],
                 "empty": _("Nothing was realised")},
                {"title": _("Longest streaks"), "columns": [_("Label"), _("Orders")],
                 "rows": [[label_of(label), str(n)] for label, n in found["streaks"].items()],
                 "empty": _("No orders")},
                {"title": _("Broken rules"), "columns": [_("Rule"), _("Trades")],
                 "rows": [[rule_of(kind), str(n)] for kind, n in found["rulesBroken"].items()],
                 "empty": _("None")},
                {"title": _("Sales without a known buy"),
                 "columns": [_("Symbol"), _("Quantity")],
                 "rows": [[one["symbol"], one["qty"]] for one in found["unmatchedSales"]],
                 "empty": _("None")},
            ],
        }  # fmt: skip


def _rate(found: dict[str, Any]) -> str:
    rate = found["realised"]["winRate"]
    return "—" if rate is None else f"{float(rate):.0%}"


def _totals(found: dict[str, Any]) -> str:
    return ", ".join(f"{one['total']} {quote}" for quote, one in found["profit"].items()) or "—"
