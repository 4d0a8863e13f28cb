"""Rules of the user."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Field, Schema

from jobs.api import In
from trading import queries, verbs
from trading.api.caller import BASE, answered, oneself, section, user_of
from trading.models import (
    Rule,
)


class TradingRuleIn(In):
    """A rule."""

    kind: Literal["avoidSpikeOverPct", "minHoldHours"]
    params: dict[str, Any] = Field(default_factory=dict, max_length=5)
    active: bool = True


class RuleOut(Schema):
    """A rule of the user."""

    kind: str
    params: dict[str, Any]
    active: bool
    broken: int


def _rule(row: Rule) -> dict[str, Any]:
    return {"kind": row.kind, "params": row.params, "active": row.is_active,
            "broken": queries.breaks_of(row.user_id, row.kind)}  # fmt: skip


@section.get(f"{BASE}/rules", "trading_rules", needs="", answer=list[RuleOut])
def rules_list(request: HttpRequest) -> Any:
    """List the rules, and how many trades broke them."""
    return [_rule(row) for row in Rule.objects.filter(user_id=user_of(request)).order_by("kind")]


@section.post(f"{BASE}/rules/upsert", "trading_rule_upsert", needs="", verb="rule.upsert",
    answer=RuleOut,
)  # fmt: skip
def rule_upsert(request: HttpRequest, body: TradingRuleIn) -> Any:
    row = answered(
        lambda: verbs.upsert_rule(
            user_of(request), body.kind, by=oneself(request), params=body.params,
            active=body.active,
        )
    )  # fmt: skip
    return _rule(row)
