"""The user's rules: their parameters, and which trades broke them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from trading import ledger
from trading.ai import bias
from trading.errors import Refused
from trading.models import Rule, Side, Trade

_PARAMS: dict[str, dict[str, tuple[float, float, float]]] = {
    Rule.Kind.AVOID_SPIKE: {"pct": (10, 0.1, 1000), "lookbackHours": (24, 1, 168)},
    Rule.Kind.MIN_HOLD: {"hours": (24, 1, 8760)},
}
"""Default, least and most of each parameter."""
_WHOLE = {"lookbackHours", "hours"}


def checked(kind: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a rule with its defaults; raise Refused that names the wrong one."""
    if kind not in _PARAMS:
        raise Refused("INVALID", f"must be one of {', '.join(_PARAMS)}", "kind")
    known = _PARAMS[kind]
    for name in params:
        if name not in known:
            raise Refused("INVALID", f"is unknown; known are {', '.join(known)}", f"params.{name}")
    found: dict[str, Any] = {}
    for name, (default, least, most) in known.items():
        value = params.get(name, default)
        wanted: Any = int if name in _WHOLE else (int, float)
        is_number = isinstance(value, wanted) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            words = "a whole number" if name in _WHOLE else "a number"
            raise Refused(
                "INVALID", f"must be {words} from {least:g} to {most:g}", f"params.{name}"
            )
        found[name] = value
    return found


def spike_broken(
    rule: Mapping[str, Any], trade: Trade, candles: list[bias.Candle], last: int
) -> str:
    """Return the spike, in percent, of a buy that broke the rule; empty otherwise."""
    hours = int(rule["lookbackHours"])
    if trade.side != Side.BUY or last + 1 < hours:
        return ""
    risen = bias.spike(candles, last, float(trade.price), hours)
    return f"{risen:.2f}" if risen >= rule["pct"] else ""


def holds_broken(rule: Mapping[str, Any], trades: Iterable[Trade]) -> dict[int, str]:
    """Return the hours held of the sales that broke the rule, by their keys."""
    least = timedelta(hours=float(rule["hours"]))
    found: dict[int, timedelta] = {}
    for piece in ledger.match(trades).pieces:
        held = piece.sell.ts - piece.buy.ts
        if held < least:
            found[piece.sell.pk] = min(held, found.get(piece.sell.pk, held))
    return {pk: f"{held.total_seconds() / 3600:.2f}" for pk, held in found.items()}
