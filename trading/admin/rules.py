"""Pages of rules."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from jobs.admin import Act, Reason, Words, components, principal
from trading import queries, verbs
from trading.admin.base import Column, TradingAdmin, acting_user, badge
from trading.models import Rule, Trade


class RuleForm(Reason):
    """Form to set one's own rule."""

    words = {
        "kind": Words(gettext_lazy("Rule"), choices=dict(Rule.Kind.choices)),
        "active": Words(pgettext_lazy("rule", "Active")),
    }
    pct = forms.FloatField(label=gettext_lazy("Percent above the lowest close"), required=False)
    hours = forms.IntegerField(label=gettext_lazy("Hours to look back, or to hold"), required=False)
    field_order = ("kind",)


def _set_rule(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    is_spike = given["kind"] == Rule.Kind.AVOID_SPIKE
    names = {"pct": "pct", "hours": "lookbackHours"} if is_spike else {"hours": "hours"}
    params = {name: given[field] for field, name in names.items() if given.get(field) is not None}
    verbs.upsert_rule(
        acting_user(request),
        given["kind"],
        by=principal(request),
        params=params,
        active=given["active"],
    )
    return _("The rule is set; trades are checked against it.")


@admin.register(Rule)
class RuleAdmin(TradingAdmin):
    """Admin of the rules."""

    order = ("kind", "id")
    columns = (
        Column(gettext_lazy("State"), lambda row: _state(row)),
        Column(gettext_lazy("Rule"), lambda row: capfirst(row.get_kind_display())),
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
        broken = Trade.objects.filter(
            user_id=row.user_id, is_counted=True, breaks__kind=row.kind
        ).order_by("-ts")[:100]
        return {
            "title": capfirst(row.get_kind_display()),
            "badge": _state(row),
            "facts": [(_("User"), str(row.user)), (_("Parameters"), _params(row))],
            "tables": [{
                "title": _("Trades that broke it"),
                "columns": [_("Trade"), _("Time")], "empty": _("No trade broke it"),
                "rows": [[self._link(one), components.time_tag(one.ts)] for one in broken],
            }],
        }  # fmt: skip

    def _link(self, row: Trade) -> Any:
        page = reverse(f"{self.admin_site.name}:trading_trade_change", args=[row.pk])
        return format_html('<a href="{}">{}</a>', page, str(row))


def _state(row: Rule) -> Any:
    if row.is_active:
        return badge("active", _("active"))
    return badge("paused", _("off"))


def _params(row: Rule) -> str:
    if row.kind == Rule.Kind.AVOID_SPIKE:
        return _("from %(pct)s %% above the lowest close of %(hours)s hours") % {
            "pct": f"{row.params['pct']:g}", "hours": row.params["lookbackHours"],
        }  # fmt: skip
    return _("%(hours)s hours") % {"hours": row.params["hours"]}
