"""Pages of trades and of rules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import Act, Reason, Words, charts, components, principal
from trading import queries, verbs
from trading.admin import figures
from trading.admin.base import Column, TradingAdmin, badge, sentence
from trading.admin.linkacts import OwnForm
from trading.api.trades import as_csv
from trading.models import BiasTag, Label, Rule, Side, Simulation, Trade
from trading.money import text


def _user(request: HttpRequest) -> int:
    return int(principal(request).user_id)


def _rescore(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    verbs.rescore(_user(request), by=principal(request), reason=given["reason"])
    return _("Your trades are labelled again.")


def _erase(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    verbs.erase(_user(request), by=principal(request), reason=given["reason"])
    return _("Your data is deleted.")


class CompareForm(OwnForm):
    """Form to compare a trade with holding."""

    words = {"days": Words(gettext_lazy("Days after the trade"))}


def _comparing(request: HttpRequest, row: Trade, job: Any) -> str:
    if job is None:
        return _("The comparison is current.")
    return _("The comparison is computed; it is on this page in a moment.")


class RuleForm(Reason):
    """Form to set one's own rule."""

    words = {
        "kind": Words(gettext_lazy("Rule"), choices=dict(Rule.Kind.choices)),
        "active": Words(gettext_lazy("Active")),
    }
    pct = forms.FloatField(label=gettext_lazy("Percent above the lowest close"), required=False)
    hours = forms.IntegerField(label=gettext_lazy("Hours to look back, or to hold"), required=False)
    field_order = ("kind",)


def _set_rule(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    is_spike = given["kind"] == Rule.Kind.AVOID_SPIKE
    names = {"pct": "pct", "hours": "lookbackHours"} if is_spike else {"hours": "hours"}
    params = {name: given[field] for field, name in names.items() if given.get(field) is not None}
    verbs.upsert_rule(
        _user(request), given["kind"], by=principal(request), params=params, active=given["active"]
    )
    return _("The rule is set; trades are checked against it.")


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
        found = Simulation.objects.filter(trade=row).order_by("horizon_days")[:30]
        prices = tag.sparkline if tag else []
        least = min(prices, default=0.0) * 0.995
        return {
            "title": _name(row),
            "badge": _label(tag) if tag else "",
            "insight": tag.insight if tag else "",
            "spark": charts.spark(
                [price - least for price in prices], _("Closes of the 24 hours before")
            ) if prices else "",
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


@admin.register(Rule)
class RuleAdmin(TradingAdmin):
    """Admin of the rules."""

    order = ("kind", "id")
    columns = (
        Column(gettext_lazy("State"), lambda row: _state(row)),
        Column(gettext_lazy("Rule"), lambda row: row.get_kind_display()),
        Column(gettext_lazy("User"), lambda row: str(row.user)),
        Column(gettext_lazy("Parameters"), lambda row: _params(row)),
        Column(gettext_lazy("Broken by"), lambda row: components.number(
            queries.breaks_of(row.user_id, row.kind))),
    )  # fmt: skip
    empty = gettext_lazy("No rule is set yet")
    advice = gettext_lazy("Set one, and see which trades broke it.")
    list_acts = (
        Act("set", gettext_lazy("Set a rule…"), _set_rule, verb="rule.upsert", form=RuleForm,
            tone="primary"),
    )  # fmt: skip

    def page_data(self, request: HttpRequest, row: Rule) -> dict[str, Any]:
        site = self.admin_site.name
        broken = Trade.objects.filter(
            user_id=row.user_id, is_counted=True, breaks__kind=row.kind
        ).order_by("-ts")[:100]
        return {
            "title": row.get_kind_display(),
            "badge": _state(row),
            "facts": [(_("User"), str(row.user)), (_("Parameters"), _params(row))],
            "tables": [{
                "title": _("Trades that broke it"),
                "columns": [_("Trade"), _("Time")], "empty": _("No trade broke it"),
                "rows": [[str(one), components.time_tag(one.ts)] for one in broken],
                "url": reverse(f"{site}:trading_trade_changelist"),
            }],
        }  # fmt: skip


def _state(row: Rule) -> Any:
    if row.is_active:
        return badge("active", _("active"))
    return badge("paused", _("off"))


def _params(row: Rule) -> str:
    return ", ".join(f"{name}: {value}" for name, value in sorted(row.params.items()))
