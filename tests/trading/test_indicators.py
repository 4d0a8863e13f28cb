"""Indicators equal TA-Lib's, and look at nothing that lies ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import talib
from hypothesis import given
from hypothesis import strategies as st

from trading.ai.indicators import NAMES, compute


def series(seed: int, length: int, level: float = 100.0) -> tuple[Any, Any, Any]:
    noise = np.random.default_rng(seed)
    close = level * np.exp(np.cumsum(noise.normal(0, 0.01, length)))
    spread = 1 + np.abs(noise.normal(0, 0.004, length))
    return close * spread, close / spread, close


@given(
    st.integers(0, 10**6), st.integers(50, 1000), st.sampled_from([0.5, 100.0, 3000.0, 60_000.0])
)
def test_indicators_equal_talib(seed: int, length: int, level: float) -> None:
    high, low, close = series(seed, length, level)
    found = compute(high, low, close)
    upper, mid, lower = talib.BBANDS(close, 20, 2.0, 2.0)
    wanted = {
        "rsi": talib.RSI(close, 14), "ema_fast": talib.EMA(close, 12),
        "ema_slow": talib.EMA(close, 26), "bb_mid": mid, "bb_upper": upper, "bb_lower": lower,
        "atr": talib.ATR(high, low, close, 14),
    }  # fmt: skip
    for name in NAMES:
        ours = np.array([np.nan if v is None else v for v in getattr(found, name)])
        assert np.array_equal(np.isnan(ours), np.isnan(wanted[name])), name
        np.testing.assert_allclose(ours, wanted[name], rtol=1e-9, atol=1e-9 * level, err_msg=name)


@given(st.integers(0, 10**6), st.integers(60, 200))
def test_later_candles_change_no_value(seed: int, cut: int) -> None:
    high, low, close = series(seed, 300)
    whole, part = compute(high, low, close), compute(high[:cut], low[:cut], close[:cut])
    for name in NAMES:
        assert getattr(whole, name)[:cut] == getattr(part, name), name


@given(st.integers(0, 10**6), st.integers(-40, 40))
def test_a_power_of_two_changes_no_rsi(seed: int, power: int) -> None:
    high, low, close = series(seed, 120)
    factor = 2.0**power
    assert compute(high, low, close).rsi == compute(high * factor, low * factor, close * factor).rsi


def test_a_flat_series_has_no_rsi() -> None:
    flat = [42.0] * 100
    assert compute(flat, flat, flat).rsi == [None] * 100
    assert talib.RSI(np.array(flat), 14)[-1] == 0.0, "which would read as oversold"


def test_tiny_prices_have_the_rsi_of_ordinary_ones() -> None:
    high, low, close = series(3, 100)
    tiny = compute(high * 2.0**-60, low * 2.0**-60, close * 2.0**-60).rsi
    assert tiny == compute(high, low, close).rsi
    assert tiny[-1] == pytest.approx(talib.RSI(close, 14)[-1], abs=1e-9)
