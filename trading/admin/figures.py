"""What a label's figures, labels and rules are called on pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from trading.admin.base import sentence
from trading.models import Label, Rule

_NAMES = {
    "spike_pct": gettext_lazy("Above the lowest close, %"),
    "dd_pct": gettext_lazy("Below the highest close, %"),
    "window_h": gettext_lazy("Hours looked at"),
    "rsi_entry": gettext_lazy("RSI"),
    "greens_streak": gettext_lazy("Rising hours in a row"),
    "reds_streak": gettext_lazy("Falling hours in a row"),
    "price_vs_bb_upper": gettext_lazy("Above the upper band, %"),
    "price_vs_bb_mid": gettext_lazy("Above the middle band, %"),
    "ema_fast_gt_slow": gettext_lazy("Fast average above the slow one"),
    "prices": gettext_lazy("Prices from"),
    "reason": gettext_lazy("Why there is no label"),
}
"""In the order in which they are shown; what is not named here is always the same."""
_REASONS = {
    "too_little_history": gettext_lazy("There are fewer than 74 hours of prices before the trade."),
    "no_market_data": gettext_lazy("The venue has no prices of this market."),
    "no_indicators": gettext_lazy("The indicators have no value yet."),
}
_UNITS = {Rule.Kind.AVOID_SPIKE: "%", Rule.Kind.MIN_HOLD: "h"}


def rows_of(features: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Return the name and the value of each figure that a trader can read."""
    for name, words in _NAMES.items():
        if name in features:
            yield [words, _reason(features[name]) if name == "reason" else _value(features[name])]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, str):
        return value
    return "—" if value is None else f"{value:.4g}"


def _reason(code: str) -> str:
    return str(_REASONS.get(code) or sentence(code.upper()))


def broken(kind: str, figure: str) -> str:
    """Return by what a trade has broken a rule, with its unit."""
    return f"{figure} {_UNITS[Rule.Kind(kind)]}"


def label_of(name: str) -> str:
    """Return what a label is called; also that of orders without one."""
    return str(Label(name).label) if name in Label.values else _("Unlabelled")


def rule_of(kind: str) -> str:
    """Return what a rule is called."""
    return str(Rule.Kind(kind).label) if kind in Rule.Kind.values else kind
