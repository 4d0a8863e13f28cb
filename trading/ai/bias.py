"""Labels by thresholds: pure functions of the candles before a trade.

The worker and ``/v1/bias/score`` run this very code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trading.ai.indicators import Indicators

LEAST = 74
"""Closed candles before a trade that a label needs: 50 for the indicators, 24 for the window."""
HOUR = 3600


@dataclass(frozen=True, slots=True)
class Candle:
    """An hour: ``ts`` is its opening, in seconds."""

    ts: int
    open: float
    high: float
    low: float
    close: float
    volume: float


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a label takes."""

    spike_pct: float = 8.0
    spike_window_h: int = 24
    red_candles_min: int = 2
    panic_dd_pct: float = 10.0
    panic_window_h: int = 24
    rsi_overbought: float = 70.0
    rsi_oversold: float = 30.0


@dataclass(frozen=True, slots=True)
class Scored:
    """A label with what led to it."""

    label: str
    confidence: float
    features: dict[str, Any]


def neutral(reason: str) -> Scored:
    """Return the label of a trade that cannot be judged."""
    return Scored("NEUTRAL", 0.0, {"reason": reason})


def last_closed(candles: Sequence[Candle], entry: float, length: int = HOUR) -> int:
    """Return the place of the last candle that had closed by the entry; -1 without one."""
    low, high = 0, len(candles)
    while low < high:
        middle = (low + high) // 2
        if candles[middle].ts + length <= entry:
            low = middle + 1
        else:
            high = middle
    return low - 1


def spike(candles: Sequence[Candle], last: int, price: float, hours: int) -> float:
    """Return by how many percent the price is above the lowest close of the window."""
    lowest = min(candle.close for candle in candles[max(0, last + 1 - hours) : last + 1])
    return (price - lowest) / lowest * 100.0


def drawdown(candles: Sequence[Candle], last: int, price: float, hours: int) -> float:
    """Return the deepest fall, in percent, below the running peak; the price ends the series."""
    closes = [candle.close for candle in candles[max(0, last + 1 - hours) : last + 1]]
    peak, deepest = closes[0], 0.0
    for value in (*closes, price):
        peak = max(peak, value)
        deepest = max(deepest, (peak - value) / peak * 100.0)
    return deepest


def streaks(candles: Sequence[Candle], last: int) -> tuple[int, int]:
    """Return how many green and how many red candles in a row end with the last one."""
    greens = reds = 0
    while last - greens >= 0 and candles[last - greens].close > candles[last - greens].open:
        greens += 1
    while last - reds >= 0 and candles[last - reds].close < candles[last - reds].open:
        reds += 1
    return greens, reds


def score(
    candles: Sequence[Candle], found: Indicators, side: str, entry: float, price: float,
    thresholds: Thresholds | None = None, length: int = HOUR,
) -> Scored:  # fmt: skip
    """Return the label of a trade at that moment and price."""
    t = thresholds or Thresholds()
    last = last_closed(candles, entry, length)
    if last + 1 < LEAST:
        return neutral("too_little_history")
    rsi, before = found.rsi[last], found.rsi[last - 1]
    mid, upper, lower = found.bb_mid[last], found.bb_upper[last], found.bb_lower[last]
    fast, slow = found.ema_fast[last], found.ema_slow[last]
    if mid is None or upper is None or lower is None or fast is None or slow is None:
        return neutral("no_indicators")
    risen = spike(candles, last, price, t.spike_window_h)
    fallen = drawdown(candles, last, price, t.panic_window_h)
    greens, reds = streaks(candles, last)
    turns = rsi is not None and before is not None and before <= t.rsi_oversold and rsi > before
    features = {
        "rsi_entry": rsi, "greens_streak": greens, "reds_streak": reds,
        "spike_pct": risen, "spike_from": "lowest_close_of_window", "dd_pct": fallen,
        "price_vs_bb_upper": (price / upper - 1.0) * 100.0 if upper else None,
        "price_vs_bb_mid": (price / mid - 1.0) * 100.0 if mid else None,
        "ema_fast_gt_slow": fast > slow, "granularity": "1h", "window_h": t.spike_window_h,
    }  # fmt: skip
    labels: list[tuple[str, float]] = []
    if side == "BUY" and risen >= t.spike_pct and (_met(rsi, t.rsi_overbought) or greens >= 2):
        labels.append(
            ("FOMO", 0.6 + 0.2 * (risen >= 1.5 * t.spike_pct)
             + 0.2 * (_met(rsi, t.rsi_overbought + 5) or greens >= 3))
        )  # fmt: skip
    is_oversold = rsi is not None and rsi <= t.rsi_oversold
    if side == "SELL" and fallen >= t.panic_dd_pct and (price <= lower or is_oversold):
        deviation = (upper - lower) / 4.0
        labels.append(
            ("PANIC", 0.6 + 0.2 * (price < lower - deviation)
             + 0.2 * (rsi is not None and rsi <= t.rsi_oversold - 5))
        )  # fmt: skip
    is_dip = reds >= t.red_candles_min or turns
    if side == "BUY" and is_dip and (fast > slow or price <= mid):
        labels.append(
            ("DISCIPLINE", 0.5 + 0.2 * turns + 0.2 * (fast > slow) + 0.1 * (price <= mid))
        )
    # The first of equals wins: FOMO goes before DISCIPLINE.
    label, confidence = max(labels, key=lambda one: round(one[1], 2), default=("NEUTRAL", 0.5))
    return Scored(label, min(1.0, round(confidence, 2)), features)


def _met(rsi: float | None, level: float) -> bool:
    return rsi is not None and rsi >= level
