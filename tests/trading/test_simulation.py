"""Comparisons: the formulas, at each close, with fees and later trades."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from tests.trading.factories import WEEK, trade
from trading.market import Row
from trading.simulating import curves

D = Decimal


def rows(*closes: str) -> list[Row]:
    first = int(WEEK.timestamp())
    prices = [D(close) for close in closes]
    return [(first + 3600 * n, c, c, c, c, D(1)) for n, c in enumerate(prices)]


END = WEEK + timedelta(days=7)


def test_a_buy_that_is_held() -> None:
    bought = trade(1, "BUY", "2", "100", 0.5, fee="1", saved=False)
    found = curves(bought, [bought], rows("100", "110", "90"), END)
    assert [point.hold for point in found] == [-1, 19, -21]
    assert [point.actual for point in found] == [-1, 19, -21]


def test_a_buy_that_is_sold_in_part() -> None:
    bought = trade(1, "BUY", "2", "100", 0.5, fee="1", saved=False)
    sold = trade(2, "SELL", "1", "120", 1.5, fee="2", saved=False)
    found = curves(bought, [bought, sold], rows("100", "110", "90"), END)
    assert [point.hold for point in found] == [-1, 19, -21]
    assert [point.actual for point in found] == [-1, 120 - 2 + 110 - 201, 120 - 2 + 90 - 201]


def test_a_fee_in_the_base_asset_reduces_what_is_held() -> None:
    bought = trade(1, "BUY", "2", "100", 0.5, fee="0.5", fee_asset="BTC", saved=False)
    [point] = curves(bought, [bought], rows("100"), END)
    assert point.hold == D("1.5") * 100 - 200


def test_a_sale_that_is_bought_back() -> None:
    sold = trade(1, "SELL", "2", "100", 0.5, fee="1", saved=False)
    back = trade(2, "BUY", "1", "80", 1.5, fee="4", saved=False)
    found = curves(sold, [sold, back], rows("90", "80", "110"), END)
    assert [point.hold for point in found] == [-20, -40, 20]
    assert [point.actual for point in found] == [-1, 80 - 84 - 1, 110 - 84 - 1]


def test_only_closes_within_the_days_count() -> None:
    bought = trade(1, "BUY", "1", "100", 0.5, saved=False)
    end = bought.ts + timedelta(hours=2)
    found = curves(bought, [bought], rows("100", "101", "102", "103"), end)
    assert [point.hold for point in found] == [0, 1]
