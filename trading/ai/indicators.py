"""Indicators of a series, computed like TA-Lib does; None where there is no value yet.

Every value depends on the candles up to its own only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Values = list[float | None]


@dataclass(frozen=True, slots=True)
class Periods:
    """The periods of the indicators."""

    rsi: int = 14
    bb: int = 20
    bb_std: float = 2.0
    ema_fast: int = 12
    ema_slow: int = 26
    atr: int = 14


@dataclass(frozen=True, slots=True)
class Indicators:
    """One value for each candle of the series."""

    rsi: Values = field(default_factory=list)
    ema_fast: Values = field(default_factory=list)
    ema_slow: Values = field(default_factory=list)
    bb_mid: Values = field(default_factory=list)
    bb_upper: Values = field(default_factory=list)
    bb_lower: Values = field(default_factory=list)
    atr: Values = field(default_factory=list)


NAMES = ("rsi", "ema_fast", "ema_slow", "bb_mid", "bb_upper", "bb_lower", "atr")


def compute(
    high: Sequence[float], low: Sequence[float], close: Sequence[float],
    periods: Periods | None = None,
) -> Indicators:  # fmt: skip
    """Return the indicators of a series of closed candles, oldest first."""
    p = periods or Periods()
    highs, lows, closes = (np.asarray(one, dtype=np.float64) for one in (high, low, close))
    mid, deviation = _bands(closes, p.bb)
    return Indicators(
        rsi=_shown(_rsi(closes, p.rsi)),
        ema_fast=_shown(_ema(closes, p.ema_fast)),
        ema_slow=_shown(_ema(closes, p.ema_slow)),
        bb_mid=_shown(mid),
        bb_upper=_shown(mid + p.bb_std * deviation),
        bb_lower=_shown(mid - p.bb_std * deviation),
        atr=_shown(_atr(highs, lows, closes, p.atr)),
    )


def _shown(values: Floats) -> Values:
    found: Values = values.tolist()
    for place in np.flatnonzero(~np.isfinite(values)):
        found[place] = None
    return found


def _wilder(values: Floats, period: int) -> Floats:
    """Smooth the values: the mean of the first ones, then one part in ``period`` of each new."""
    found = np.full(len(values), np.nan)
    if len(values) < period:
        return found
    level = float(values[:period].mean())
    found[period - 1] = level
    rest: list[float] = values[period:].tolist()  # many times faster than numpy's numbers
    for place, value in enumerate(rest, period):
        level = (level * (period - 1) + value) / period
        found[place] = level
    return found


def _rsi(closes: Floats, period: int) -> Floats:
    found = np.full(len(closes), np.nan)
    if len(closes) <= period:
        return found
    change = np.diff(closes)
    gain = _wilder(np.maximum(change, 0.0), period)
    loss = _wilder(np.maximum(-change, 0.0), period)
    total = gain + loss
    with np.errstate(invalid="ignore", divide="ignore"):
        # A series that has never moved has no RSI.
        found[1:] = np.where(total > 0.0, 100.0 * (gain / total), np.nan)
    return found


def _ema(closes: Floats, period: int) -> Floats:
    found = np.full(len(closes), np.nan)
    if len(closes) < period:
        return found
    level, share = float(closes[:period].mean()), 2.0 / (period + 1)
    found[period - 1] = level
    rest: list[float] = closes[period:].tolist()
    for place, close in enumerate(rest, period):
        level += share * (close - level)
        found[place] = level
    return found


def _bands(closes: Floats, period: int) -> tuple[Floats, Floats]:
    """Return the moving mean and standard deviation of the population."""
    mid = np.full(len(closes), np.nan)
    deviation = np.full(len(closes), np.nan)
    if len(closes) >= period:
        windows = np.lib.stride_tricks.sliding_window_view(closes, period)
        mid[period - 1 :] = windows.mean(axis=1)
        deviation[period - 1 :] = windows.std(axis=1)
    return mid, deviation


def _atr(highs: Floats, lows: Floats, closes: Floats, period: int) -> Floats:
    found = np.full(len(closes), np.nan)
    if len(closes) <= period:
        return found
    before = closes[:-1]
    ranges = np.maximum(highs[1:], before) - np.minimum(lows[1:], before)
    found[1:] = _wilder(ranges, period)
    return found


def as_dict(found: Indicators) -> dict[str, Any]:
    """Return the indicators as the service answers them."""
    return {name: getattr(found, name) for name in NAMES}
