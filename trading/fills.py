"""Reading a venue's fills, and netting reversals and corrections."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from trading.errors import VenueError
from trading.money import ZERO, amount, divide

TYPES = ("FILL", "REVERSAL", "CORRECTION", "SYNTHETIC")
_ID = re.compile(r"[!-~]{1,100}\Z", re.ASCII)
_ASSET = re.compile(r"[A-Z0-9]{1,20}\Z", re.ASCII)


class Unknown(Exception):
    """A fill of a product that the app does not know, such as a future."""


@dataclass(frozen=True, slots=True)
class Fill:
    """A fill as read from the venue."""

    ext_id: str
    trade_id: str
    order_id: str
    symbol: str
    base: str
    quote: str
    side: str
    type: str
    qty: Decimal
    price: Decimal
    fee: Decimal
    fee_asset: str
    ts: datetime
    sequence: str


def read_fill(row: Any) -> Fill:
    """Return the fill; raise VenueError if a field is missing or impossible."""
    if not isinstance(row, dict):
        raise VenueError("BAD_ROW")
    try:
        symbol = row["product_id"]
        parts = symbol.split("-")
        if len(parts) != 2:
            raise Unknown
        base, quote = parts
        for text in (row["entry_id"], row["trade_id"], row["order_id"]):
            _check(_ID, text)
        for text in parts:
            _check(_ASSET, text)
        side, kind = row["side"], row.get("trade_type") or "FILL"
        if side not in ("BUY", "SELL") or kind not in TYPES:
            raise ValueError("an unknown side or type")
        price, size = amount(row["price"]), amount(row["size"])
        fee = amount(row.get("commission") or "0")
        if price <= ZERO or size <= ZERO:
            raise ValueError("is not above zero")
        if row.get("size_in_quote") is True:
            size = divide(size, price)
        ts = _moment(row["trade_time"])
        sequence = _moment(row.get("sequence_timestamp") or row["trade_time"])
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError):
        raise VenueError("BAD_ROW") from None
    return Fill(
        row["entry_id"], row["trade_id"], row["order_id"], symbol, base, quote, side, kind, size,
        price, fee, quote, ts, f"{sequence:%Y%m%d%H%M%S%f}",
    )  # fmt: skip


def read_binance(row: Any, market: str) -> Fill:
    """Return the fill of Binance's market; raise VenueError if a field is missing or impossible."""
    if not isinstance(row, dict):
        raise VenueError("BAD_ROW")
    try:
        symbol = market.replace("-", "")
        number, order, moment = row["id"], row["orderId"], row["time"]
        if any(type(value) is not int or value < 0 for value in (number, order, moment)):
            raise ValueError("is no id")
        if row["symbol"] != symbol or type(row["isBuyer"]) is not bool:
            raise ValueError("is of another market")
        price, size = amount(row["price"]), amount(row["qty"])
        if price <= ZERO or size <= ZERO:
            raise ValueError("is not above zero")
        _check(_ASSET, row["commissionAsset"])
        fee = amount(row["commission"])
        ts = datetime.fromtimestamp(moment // 1000, UTC) + timedelta(milliseconds=moment % 1000)
    except (KeyError, TypeError, ValueError, ArithmeticError, OSError):
        raise VenueError("BAD_ROW") from None
    base, quote = market.split("-")
    name = f"{symbol}:{number}"
    return Fill(
        name, name, f"{symbol}:{order}", market, base, quote, "BUY" if row["isBuyer"] else "SELL",
        "FILL", size, price, fee, row["commissionAsset"], ts, f"{number:020d}",
    )  # fmt: skip


def _check(pattern: re.Pattern[str], text: str) -> None:
    if not pattern.match(text):
        raise ValueError("has an impossible id")


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    if found.utcoffset() is None:
        raise ValueError("has no time zone")
    return found.astimezone(UTC)


class Netted(Protocol):
    """What netting needs to know of a stored fill."""

    pk: Any
    ext_id: str
    type: str
    side: str
    qty: Decimal
    price: Decimal
    sequence: str


def counted(rows: Iterable[Netted]) -> set[Any]:
    """Return the keys of those fills of one trade id that count.

    The newest correction replaces everything else. Otherwise each reversal takes out one fill
    of the same quantity and price. The order of the rows does not matter.
    """
    ordered = sorted(rows, key=lambda row: (row.sequence, row.ext_id))
    corrections = [row for row in ordered if row.type == "CORRECTION"]
    if corrections:
        return {corrections[-1].pk}
    left = [row for row in ordered if row.type != "REVERSAL"]
    for reversal in (row for row in ordered if row.type == "REVERSAL"):
        same = [row for row in left if (row.qty, row.price) == (reversal.qty, reversal.price)]
        if same:
            left.remove(same[0])
    return {row.pk for row in left}
