"""Labels: what each takes, at its edges, and that the trade alone decides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trading.ai import bias
from trading.ai.bias import Candle, Scored, drawdown, last_closed, score, spike, streaks
from trading.ai.indicators import compute

BEGIN = 1_767_225_600


def candles(closes: list[float], first: float = 100.0) -> list[Candle]:
    opens = [first, *closes[:-1]]
    return [
        Candle(BEGIN + 3600 * n, o, max(o, c) * 1.001, min(o, c) * 0.999, c, 1.0)
        for n, (o, c) in enumerate(zip(opens, closes, strict=True))
    ]


def judged(closes: list[float], side: str, price: float | None = None, minutes: int = 5) -> Scored:
    """The label of a trade some minutes after the last candle."""
    rows = candles(closes)
    found = compute([c.high for c in rows], [c.low for c in rows], [c.close for c in rows])
    entry = rows[-1].ts + 3600 + 60 * minutes
    return score(rows, found, side, entry, rows[-1].close if price is None else price)


WAVES = [100 + (n % 2) * 0.2 for n in range(94)]
PUMP = [100 * 1.03**n for n in range(1, 7)]
FALL = [100 * 0.97**n for n in range(1, 7)]


def test_a_buy_after_a_pump_is_fomo() -> None:
    found = judged([*WAVES, *PUMP], "BUY")
    assert (found.label, found.confidence) == ("FOMO", 1.0)
    assert found.features["spike_pct"] == pytest.approx(19.4, abs=0.1)
    assert found.features["spike_from"] == "lowest_close_of_window"
    assert found.features["greens_streak"] == 7


def test_a_sale_after_a_pump_is_not() -> None:
    assert judged([*WAVES, *PUMP], "SELL").label == "NEUTRAL"


def test_a_sale_into_a_fall_is_panic() -> None:
    found = judged([*WAVES, *FALL], "SELL")
    assert found.label == "PANIC" and found.features["dd_pct"] > 16


def test_one_standard_deviation_below_the_band_is_a_quarter_of_its_width() -> None:
    sure, unsure = (judged([*WAVES, *FALL], "SELL", price) for price in (60.0, 85.0))
    assert (sure.confidence, unsure.confidence) == (1.0, 0.8)


def test_a_buy_after_two_reds_is_disciplined() -> None:
    found = judged([*WAVES[:-1], 99.6, 99.2], "BUY")
    assert found.label == "DISCIPLINE" and found.features["reds_streak"] >= 2


def test_an_ordinary_trade_is_neutral_with_half_confidence() -> None:
    found = judged([*WAVES, 100.2, 100.4], "BUY")
    assert (found.label, found.confidence) == ("NEUTRAL", 0.5)


def test_too_little_history_is_neutral_with_a_reason() -> None:
    found = judged(WAVES[:73], "BUY")
    assert (found.label, found.confidence) == ("NEUTRAL", 0.0)
    assert found.features == {"reason": "too_little_history"}
    assert "reason" not in judged(WAVES[:74], "BUY").features


def test_the_open_candle_is_not_looked_at() -> None:
    rows = candles(WAVES)
    assert last_closed(rows, rows[5].ts + 3599) == 4
    assert last_closed(rows, rows[5].ts + 3600) == 5
    assert last_closed(rows, rows[0].ts) == -1


def test_a_spike_is_measured_from_the_lowest_close_before() -> None:
    rows = candles([90.0] + [100.0] * 24)
    assert spike(rows, 24, 110.0, 24) == pytest.approx(10.0)
    assert spike(rows, 24, 110.0, 25) == pytest.approx(22.2, abs=0.1)


def test_a_trough_before_the_peak_is_no_drawdown() -> None:
    rows = candles([*[80.0] * 12, *[100.0] * 12])
    assert drawdown(rows, 23, 100.0, 24) == 0.0
    assert drawdown(rows, 23, 90.0, 24) == pytest.approx(10.0)


def test_streaks_end_at_the_first_break() -> None:
    rows = candles([101.0, 102.0, 101.0, 102.0, 103.0])
    assert streaks(rows, 4) == (2, 0)
    flat = candles([101.0, 102.0, 102.0])
    assert streaks(flat, 2) == (0, 0)


def test_a_flat_series_meets_no_rsi_threshold() -> None:
    found = judged([100.0] * 100, "SELL", 80.0)
    assert found.features["rsi_entry"] is None
    assert found.label == "PANIC", "by the band, not by the RSI"
    assert found.confidence == 0.8


@given(
    st.lists(st.floats(0.95, 1.05), min_size=100, max_size=140),
    st.sampled_from(["BUY", "SELL"]),
    st.integers(-20, 20),
    st.lists(st.floats(1.0, 1000.0), max_size=30),
)
def test_later_candles_and_powers_of_two_change_no_label(
    moves: list[float], side: str, power: int, later: list[float]
) -> None:
    closes, price = [], 100.0
    for move in moves:
        price *= move
        closes.append(price)
    entry = BEGIN + 3600 * len(closes) + 300

    def label(factor: float, tail: list[float]) -> Scored:
        rows = candles([c * factor for c in [*closes, *tail]], 100.0 * factor)
        found = compute([c.high for c in rows], [c.low for c in rows], [c.close for c in rows])
        return score(rows, found, side, entry, closes[-1] * factor)

    assert label(1.0, []) == label(2.0**power, []) == label(1.0, later)


def test_the_indicator_of_the_last_closed_candle_counts() -> None:
    rows = candles([*WAVES, *PUMP])
    found = compute([c.high for c in rows], [c.low for c in rows], [c.close for c in rows])
    in_hour = score(rows, found, "BUY", rows[-1].ts + 60, rows[-2].close)
    assert in_hour.features["rsi_entry"] == found.rsi[-2]
    assert bias.LEAST == 74
