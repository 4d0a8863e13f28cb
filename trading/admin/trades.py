"""Pages of trades."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import Act, Words, charts, components, principal
from trading import queries, verbs
from trading.admin import figures
from trading.admin.base import Column, TradingAdmin, acting_user, badge, sentence
from trading.admin.linkacts import OwnForm
from trading.api.trades import as_csv
from trading.models import BiasTag, Label, Rule, Side, Simulation, Trade
from trading.money import text


def _rescore(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    verbs.rescore(acting_user(request), by=principal(request), reason=given["reason"])
    return _("Your trades are labelled again.")


def _erase(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    verbs.erase(acting_user(request), by=principal(request), reason=given["reason"])
    return _("Your data is deleted.")


class CompareForm(OwnForm):
    """Form to compare a trade with holding."""

    words = {"days": Words(gettext_lazy("Days after the trade"))}


def _comparing(request: HttpRequest, row: Trade, job: Any) -> str:
    if job is None:
        return _("The comparison is current.")
    return _("The comparison is computed; it is on this page in a moment.")


def _name(row: Trade) -> str:
    return f"{capfirst(row.get_side_display())} {row.symbol}"


def _tag(row: Any) -> BiasTag | None:
    return row.current[0] if row.current else None


def _label(tag: BiasTag | None) -> Any:
    return badge(tag.label, tag.get_label_display()) if tag else "—"


def _confidence(tag: BiasTag | None) -> str:
    return f"{tag.confidence:.2f}" if tag else "—"


def _broken(row: Trade) -> str:
    return ", ".join(str(one.get_kind_display()) for one in row.breaks.all())


NAMES = ("symbol", "side", "label", "rule", "from", "until")


@admin.register(Trade)
class TradeAdmin(TradingAdmin):
    """Admin of the trades."""

    nouns = ("trade",)
    order = ("-ts", "-id")
    columns = (
        Column(gettext_lazy("Label"), lambda row: _label(_tag(row))),
        Column(
            gettext_lazy("Trade"), lambda row: f"{capfirst(row.get_side_display())} {row.symbol}"
        ),
        Column(gettext_lazy("User"), lambda row: str(row.user)),
        Column(gettext_lazy("Quantity"), lambda row: text(row.qty)),
        Column(gettext_lazy("Price"), lambda row: text(row.price)),
        Column(gettext_lazy("Confidence"), lambda row: _confidence(_tag(row))),
        Column(gettext_lazy("Broken rules"), lambda row: _broken(row)),
        Column(gettext_lazy("Time"), lambda row: components.time_tag(row.ts)),
    )
    empty = gettext_lazy("There is no trade here")
    advice = gettext_lazy("Link an account and import its fills.")
    acts = (
        Act("simulate", gettext_lazy("Compare with holding…"), form=CompareForm, tone="primary",
            verb="trade.simulate", submit=gettext_lazy("Compare"), show=_comparing),
    )  # fmt: skip
    list_acts = (
        Act("rescore", gettext_lazy("Label my trades again…"), _rescore, form=OwnForm,
            verb="trader.rescore",
            consequences=lambda r, row: [_("Events are sent only for labels that change.")]),
        Act("erase", gettext_lazy("Delete all my data…"), _erase, verb="trader.erase",
            tone="danger", consequences=lambda r, row: [
                _("Links, trades, labels, rules and digests are deleted for ever.")]),
    )  # fmt: skip

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Answer the list as a page, or what its filters leave as CSV."""
        if request.GET.get("format") != "csv":
            return super().changelist_view(request, {"exports": True, **(extra_context or {})})
        self.check_view(request)
        return as_csv(self.narrowed(request, self.rows(request)))

    def rows(self, request: HttpRequest) -> Any:
        return super().rows(request).filter(is_counted=True)

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        asked = {name: request.GET.get(name, "").strip()[:60] for name in NAMES}
        found = queries.narrowed(
            rows, symbol=asked["symbol"].upper() or None,
            side=asked["side"] if asked["side"] in Side.values else None,
            label=asked["label"] if asked["label"] in Label.values else None,
            rule=asked["rule"] if asked["rule"] in Rule.Kind.values else None,
            since=_day(asked["from"]), until=_day(asked["until"]),
        )  # fmt: skip
        return queries.with_labels(found)

    def filters(self, request: HttpRequest) -> list[dict[str, Any]]:
        def shown(name: str, label: Any, kind: str, choices: Any = ()) -> dict[str, Any]:
            value = request.GET.get(name, "").strip()[:60]
            return {"name": name, "label": label, "kind": kind, "value": value, "choices": choices}

        return [
            shown("symbol", _("Symbol"), "search"),
            shown("side", _("Any side"), "select", Side.choices),
            shown("label", _("Any label"), "select", Label.choices),
            shown("rule", _("Broken rule"), "select", Rule.Kind.choices),
            shown("from", _("From"), "date"),
            shown("until", _("Until"), "date"),
        ]

    def page_data(self, request: HttpRequest, row: Trade) -> dict[str, Any]:
        tag = BiasTag.objects.filter(trade=row, is_current=True).first()
        found = Simulation.objects.filter(trade=row).order_by("horizon_days")
        drawn = found.exclude(curves=[]).order_by("-fresh_until").first()
        prices = tag.sparkline if tag else []
        least = min(prices, default=0.0) * 0.995
        return {
            "title": _name(row),
            "badge": _label(tag) if tag else "",
            "insight": tag.insight if tag else "",
            "spark": charts.spark(
                [price - least for price in prices], _("Closes of the 24 hours before")
            ) if prices else "",
            **(_drawn(drawn, row.quote) if drawn else {}),
            "facts": [
                (_("Quantity"), text(row.qty)), (_("Price"), f"{text(row.price)} {row.quote}"),
                (_("Fee"), f"{text(row.fee)} {row.fee_asset}"), (_("Order"), row.order_id),
                (_("Time"), components.moment(row.ts)),
                *([(_("Confidence"), _confidence(tag)),
                   (_("Source"), tag.get_source_display())] if tag else []),
                *((one.get_kind_display(), figures.broken(one.kind, one.figure))
                  for one in row.breaks.all()),
            ],
            "tables": [
                {"title": _("Figures"), "columns": [_("Figure"), _("Value")],
                 "rows": list(figures.rows_of(tag.features if tag else {})),
                 "empty": _("Not labelled yet")},
                {"title": _("Compared with holding"),
                 "columns": [_("Days"), _("Hold"), _("Actual"), _("Difference"), _("Until")],
                 "rows": [_compared(one) for one in found], "empty": _("Not compared yet")},
            ],
            "list_buttons": self.buttons(request, row, row.pk),
        }  # fmt: skip


def _drawn(row: Simulation, quote: str) -> dict[str, Any]:
    """Return the curves of a comparison: for the eye only, so numbers are good enough."""
    drawn = [charts.Line(_("Hold"), [float(one[1]) for one in row.curves], "blue"),
             charts.Line(_("Actual"), [float(one[2]) for one in row.curves], "green")]  # fmt: skip
    words = ", ".join(f"{line.label}: {line.values[-1]:.2f}" for line in drawn)
    return {
        "chart_title": _("Compared with holding for %(days)d days, in %(quote)s")
        % {"days": row.horizon_days, "quote": quote},
        "chart": charts.curves(
            [datetime.fromisoformat(one[0]) for one in row.curves], drawn, words
        ),
        "legend": charts.legend([charts.Part(line.label, 0, line.tone) for line in drawn], False),
    }


def _compared(row: Simulation) -> list[Any]:
    amounts = [row.hold, row.actual, row.delta]
    if row.delta is None:
        waits = sentence(row.error) or _("being computed")
        return [str(row.horizon_days), waits, "—", "—", "—"]
    note = f" ({_('partial')})" if row.is_partial else ""
    until = components.moment(row.until) if row.until else "—"
    return [
        str(row.horizon_days), *("—" if one is None else text(one) for one in amounts),
        f"{until}{note}",
    ]  # fmt: skip


def _day(given: str) -> datetime | None:
    try:
        return datetime.strptime(given, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
