"""CryptoCompare over real HTTP: errors with status 200, zeros before a market began."""

from __future__ import annotations

from typing import Any

from config.standins.trading.market import LEVELS, Market
from config.standins.trading.venue import Answer, Asked, Venue

KEY = "a key of the stand-in"


class Vendor(Venue):
    """The vendor; its prices are those of the seeded market, also against USDT."""

    def __init__(self, market: Market | None = None, port: int = 0) -> None:
        super().__init__(port)
        self.market = market or Market()
        self.behind = 0
        """Hours that are missing at the end."""

    def reset(self) -> None:
        super().reset()
        self.behind = 0

    def answer(self, asked: Asked) -> Answer:
        query = asked.query
        if asked.headers.get("Authorization") != f"Apikey {KEY}":
            return self._refused("You need a valid auth key or api key to access this endpoint", 1)
        market = f"{query.get('fsym')}-{query.get('tsym', '').replace('USDT', 'USD')}"
        if asked.path != "/data/v2/histohour" or market not in LEVELS:
            return self._refused(f"There is no data for the market {market}", 2, "fsym")
        last = int(query["toTs"]) // 3600 * 3600
        first = last - int(query["limit"]) * 3600
        kept = {int(row["start"]): row for row in self.market.candles(market, first, last)}
        rows = [self._row(ts, kept.get(ts)) for ts in range(first, last + 3600, 3600)]
        rows = rows[: len(rows) - self.behind] if self.behind else rows
        return Answer(200, {
            "Response": "Success", "Message": "", "HasWarning": False, "Type": 100,
            "RateLimit": {}, "Data": {"Aggregated": False, "TimeFrom": first,
            "TimeTo": rows[-1]["time"] if rows else first, "Data": rows},
        })  # fmt: skip

    def _row(self, ts: int, row: dict[str, str] | None) -> dict[str, Any]:
        names = ("open", "high", "low", "close")
        prices = {name: float(row[name]) if row else 0 for name in names}
        return {
            "time": ts, **prices, "volumefrom": 1.5 if row else 0, "volumeto": 1.5 if row else 0,
            "conversionType": "direct", "conversionSymbol": "",
        }  # fmt: skip

    def _refused(self, words: str, kind: int, wrong: str = "") -> Answer:
        return Answer(200, {
            "Response": "Error", "Message": words, "HasWarning": False, "Type": kind,
            "RateLimit": {}, "Data": {}, **({"ParamWithError": wrong} if wrong else {}),
        })  # fmt: skip


RATE_LIMITED = (
    '{"Response": "Error", "Message": "You are over your rate limit please upgrade your account!", '
    '"HasWarning": false, "Type": 99, "RateLimit": {}, "Data": {}}'
)
"""What it sends, with status 200, to those who ask too often."""
