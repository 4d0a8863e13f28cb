"""A seeded market: hourly candles with pumps, falls and dips, and trades that follow them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

HOURS = 24 * 150
LEVELS = {"BTC-USD": 60_000.0, "ETH-USD": 3_000.0}
PLAN = (
    "DISCIPLINE", "FOMO", "PANIC", "DISCIPLINE", "DISCIPLINE", "FOMO", "PANIC", "DISCIPLINE",
    "FOMO", "PANIC", "DISCIPLINE", "DISCIPLINE",
)  # fmt: skip
"""What the twelve trades look like, oldest first: 3 FOMO, 3 PANIC, 6 DISCIPLINE."""
STEPS = {
    "FOMO": [1.025] * 6, "PANIC": [0.972] * 6, "DISCIPLINE": [0.996, 0.995, 0.994],
}  # fmt: skip
EVERY = 56
"""Hours between two trades of the plan."""
QUIET = 3
"""At this interval of hours before a trade, an hour without trades is left out."""


@dataclass(frozen=True, slots=True)
class Order:
    """A trade of the plan."""

    label: str
    symbol: str
    side: str
    at: datetime
    price: float


class Market:
    """Candles of the last 150 days before a day, and the trades of the plan."""

    def __init__(self, today: datetime | None = None, seed: int = 7) -> None:
        now = today or datetime.now(UTC)
        self.end = now.replace(minute=0, second=0, microsecond=0)
        self.begin = self.end - timedelta(hours=HOURS)
        self.orders: list[Order] = []
        self._moves: dict[str, dict[int, float]] = {symbol: {} for symbol in LEVELS}
        first = HOURS - EVERY * len(PLAN) - 20
        places = []
        for number, label in enumerate(PLAN):
            symbol = list(LEVELS)[number % 2]
            place = first + number * EVERY
            steps = STEPS[label]
            for step, factor in enumerate(steps):
                self._moves[symbol][place - len(steps) + step] = factor
            places.append((label, symbol, place))
        self.closes = {symbol: self._walk(symbol, seed) for symbol in LEVELS}
        self._left_out = {
            symbol: {place - 40 - n * QUIET for _, s, place in places if s == symbol
                     for n in range(2)}
            for symbol in LEVELS
        }  # fmt: skip
        for label, symbol, place in places:
            side = "SELL" if label == "PANIC" else "BUY"
            at = self.begin + timedelta(hours=place, minutes=7)
            self.orders.append(Order(label, symbol, side, at, self.closes[symbol][place - 1]))

    def _walk(self, symbol: str, seed: int) -> list[float]:
        """Return the closes: small noise around a level, to which the price returns slowly."""
        noise = random.Random(f"{seed}{symbol}")
        level, price, found = LEVELS[symbol], LEVELS[symbol], []
        for hour in range(HOURS):
            move = self._moves[symbol].get(hour)
            if move is None:
                price += (level - price) * 0.08 + price * noise.uniform(-0.002, 0.002)
            else:
                price *= move
            found.append(round(price, 2))
        return found

    def candles(self, symbol: str, start: int, end: int) -> list[dict[str, str]]:
        """Return the candles that open from one to the other second, newest first.

        As venues do, it leaves out hours without trades and adds the candle before the start.
        """
        closes = self.closes[symbol]
        first = int(self.begin.timestamp())
        found = []
        for hour in range(max(1, (start - first) // 3600 - 1), HOURS):
            ts = first + hour * 3600
            if ts > end:
                break
            if hour in self._left_out[symbol]:
                continue
            opening, close = closes[hour - 1], closes[hour]
            found.append({
                "start": str(ts), "low": f"{min(opening, close) * 0.999:.2f}",
                "high": f"{max(opening, close) * 1.001:.2f}", "open": f"{opening:.2f}",
                "close": f"{close:.2f}", "volume": "12.5",
            })  # fmt: skip
        return found[::-1]

    def fills(self, per_order: int = 1, prefix: str = "") -> list[dict[str, Any]]:
        """Return the fills of the plan, each order in that many pieces."""
        found = []
        for number, order in enumerate(self.orders):
            for piece in range(per_order):
                at = order.at + timedelta(seconds=piece)
                mark = f"{prefix}{number:02d}-{piece}"
                found.append(fill(
                    mark, order.symbol, order.side, f"{0.3 / per_order:.8f}",
                    f"{order.price:.2f}", at, order_id=f"order-{prefix}{number:02d}",
                ))  # fmt: skip
        return found


def fill(
    mark: str, symbol: str, side: str, size: str, price: str, at: datetime, *,
    order_id: str = "", commission: str = "1.25", **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return a fill in the form of the venue."""
    stamp = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "entry_id": f"entry-{mark}", "trade_id": f"trade-{mark}",
        "order_id": order_id or f"order-{mark}", "trade_time": stamp, "trade_type": "FILL",
        "price": price, "size": size, "commission": commission, "product_id": symbol,
        "sequence_timestamp": stamp, "liquidity_indicator": "TAKER", "size_in_quote": False,
        "user_id": "u", "side": side, "retail_portfolio_id": "p", **more,
    }  # fmt: skip
