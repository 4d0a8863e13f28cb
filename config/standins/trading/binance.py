"""Binance spot over real HTTP: it refuses what the venue refuses, and counts weights."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from config.standins.trading.market import LEVELS, Market
from config.standins.trading.venue import Answer, Asked, Venue

DAY = 24 * 3600 * 1000
WEIGHTS = {
    "myTrades": 20, "account": 20, "exchangeInfo": 20, "klines": 2, "time": 1, "apiRestrictions": 1,
}  # fmt: skip
QUOTE = "USDT"
MARKETS = {f"{name.split('-')[0]}{QUOTE}": name for name in LEVELS}
"""The markets of the venue, and those of the seeded market whose prices they have."""
_SIGNED = ("/api/v3/account", "/api/v3/myTrades", "/sapi/v1/account/apiRestrictions")


@dataclass
class BinanceAccount:
    """An account of the venue, with its key."""

    key: str
    secret: str
    fills: list[dict[str, Any]] = field(default_factory=list)
    balances: dict[str, str] = field(default_factory=lambda: {"BTC": "0.5", "USDT": "100"})
    can_read: bool = True
    can_trade: bool = False
    can_withdraw: bool = False
    can_move: bool = False


def new_binance_account() -> BinanceAccount:
    """Return an account with a fresh key."""
    return BinanceAccount(secrets.token_hex(32), secrets.token_hex(32))


class Binance(Venue):
    """The venue; register accounts."""

    def __init__(self, market: Market | None = None, port: int = 0) -> None:
        super().__init__(port)
        self.market = market or Market()
        self.accounts: dict[str, BinanceAccount] = {}
        self.skew = 0
        """Milliseconds by which its clock is ahead."""
        self.newest_first = False
        """Whether a window that holds more than a page is cut at its beginning: both are seen."""
        self.used = 0
        """What the address has used of its minute."""

    def reset(self) -> None:
        """Forget accounts, faults and what was asked."""
        super().reset()
        self.accounts.clear()
        self.skew, self.newest_first, self.used = 0, False, 0

    def add(self, account: BinanceAccount) -> BinanceAccount:
        """Register an account."""
        self.accounts[account.key] = account
        return account

    def answer(self, asked: Asked) -> Answer:
        self.used += WEIGHTS.get(asked.path.rsplit("/", 1)[-1], 1)
        made = self._answer(asked)
        return Answer(made.status, made.found, {"X-MBX-USED-WEIGHT-1M": str(self.used)})

    def _answer(self, asked: Asked) -> Answer:
        if asked.path == "/api/v3/time":
            return Answer(200, {"serverTime": self._now()})
        if asked.path == "/api/v3/exchangeInfo":
            return Answer(200, {"symbols": [
                {"symbol": name, "status": "TRADING", "baseAsset": name.removesuffix(QUOTE),
                 "quoteAsset": QUOTE, "isSpotTradingAllowed": True}
                for name in MARKETS
            ]})  # fmt: skip
        if asked.path == "/api/v3/klines":
            return self._klines(asked.query)
        if asked.path not in _SIGNED:
            return Answer(404, {"code": -1000, "msg": "unknown path"})
        found = self._known(asked)
        if isinstance(found, Answer):
            return found
        if asked.path == "/api/v3/account":
            return Answer(200, {"canWithdraw": True, "balances": [
                {"asset": asset, "free": amount, "locked": "0.00000000"}
                for asset, amount in found.balances.items()
            ]})  # fmt: skip
        if asked.path == "/api/v3/myTrades":
            return self._trades(found, asked.query)
        return Answer(200, {
            "ipRestrict": False, "enableReading": found.can_read, "enableMargin": False,
            "enableSpotAndMarginTrading": found.can_trade, "enableFutures": False,
            "enableWithdrawals": found.can_withdraw, "enableInternalTransfer": found.can_move,
            "permitsUniversalTransfer": found.can_move,
        })  # fmt: skip

    def _now(self) -> int:
        return int(time.time() * 1000) + self.skew

    def _known(self, asked: Asked) -> BinanceAccount | Answer:
        """Return the account whose key has signed this very query, in time."""
        account = self.accounts.get(asked.headers.get("X-MBX-APIKEY", ""))
        if account is None:
            return Answer(401, {"code": -2015, "msg": "Invalid API-key, IP, or permissions"})
        text, _, signature = asked.text.rpartition("&signature=")
        wanted = hmac.new(account.secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(signature.lower(), wanted):
            return Answer(400, {"code": -1022, "msg": "Signature for this request is not valid."})
        sent, window = int(asked.query["timestamp"]), int(asked.query.get("recvWindow", "5000"))
        if window > 60_000:
            return Answer(400, {"code": -1131, "msg": "recvWindow must be less than 60000"})
        if not self._now() - window <= sent <= self._now() + 1000:
            return Answer(400, {"code": -1021, "msg": "Timestamp is outside of the recvWindow."})
        return account

    def _trades(self, account: BinanceAccount, query: dict[str, str]) -> Answer:
        symbol, limit = query.get("symbol", ""), int(query.get("limit", "500"))
        if symbol not in MARKETS:
            return Answer(400, {"code": -1121, "msg": "Invalid symbol."})
        times = [int(query[name]) for name in ("startTime", "endTime") if name in query]
        if limit > 1000 or ("fromId" in query and times):
            return Answer(400, {"code": -1128, "msg": "Combination of parameters invalid."})
        if len(times) == 2 and times[1] - times[0] > DAY:
            return Answer(400, {"code": -1127, "msg": "More than 24 hours between the times."})
        rows = sorted(
            (row for row in account.fills if row["symbol"] == symbol), key=lambda row: row["id"]
        )
        if "fromId" in query:
            rows = [row for row in rows if row["id"] >= int(query["fromId"])][:limit]
        elif times:
            rows = [row for row in rows if times[0] <= row["time"] <= times[-1]]
            rows = rows[-limit:] if self.newest_first else rows[:limit]
        else:
            rows = rows[-limit:]
        return Answer(200, rows)

    def _klines(self, query: dict[str, str]) -> Answer:
        if query.get("symbol") not in MARKETS:
            return Answer(400, {"code": -1121, "msg": "Invalid symbol."})
        begin, end = int(query["startTime"]) // 1000, int(query["endTime"]) // 1000
        name = MARKETS[query["symbol"]]
        rows = [
            [int(row["start"]) * 1000, row["open"], row["high"], row["low"], row["close"],
             row["volume"], int(row["start"]) * 1000 + 3_599_999, "0", 1, "0", "0", "0"]
            for row in reversed(self.market.candles(name, begin, end))
            if begin <= int(row["start"])
        ]  # fmt: skip
        return Answer(200, rows[: int(query.get("limit", "500"))])


def binance_fills(market: Market, first: int = 1) -> list[dict[str, Any]]:
    """Return the trades of the plan, numbered from ``first`` on; buys pay their fee in the base."""
    found = []
    for number, order in enumerate(market.orders):
        base = order.symbol.split("-")[0]
        found.append(binance_fill(
            first + number, f"{base}{QUOTE}", order.side == "BUY", "0.3", f"{order.price:.2f}",
            int(order.at.timestamp() * 1000),
        ))  # fmt: skip
    return found


def binance_fill(
    number: int, symbol: str, is_buyer: bool, qty: str, price: str, time_ms: int, **more: Any
) -> dict[str, Any]:
    """Return a fill in the form of the venue."""
    return {
        "symbol": symbol, "id": number, "orderId": 1000 + number, "orderListId": -1,
        "price": price, "qty": qty, "quoteQty": "0", "commission": "0.00030000",
        "commissionAsset": symbol.removesuffix(QUOTE) if is_buyer else QUOTE, "time": time_ms,
        "isBuyer": is_buyer, "isMaker": False, "isBestMatch": True, **more,
    }  # fmt: skip
