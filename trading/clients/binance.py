"""Binance spot: the rights of a key, its markets, fills, and candles.

The venue has to be asked for the fills of each market, and names the fills of one by rising ids. A
cursor is the market with the id of the next fill, or with the window of time that is looked into.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from trading import limits
from trading.clients import venue
from trading.clients.venue import Account, Page, Rights
from trading.config import settings
from trading.errors import CursorRefused, KeyRefused, VenueAway, VenueError
from trading.fills import read_binance

PAGE = 1000
DAY = 24 * 3600 * 1000
"""Milliseconds of the longest window that the venue accepts."""
INFO_LIMIT = 64 * 1024 * 1024
"""Bytes of the list of all markets."""
USUAL_QUOTE = "USDT"
OFFERED = 50
_CLOCK, _SYMBOL = -1021, -1121
_KEY = {-1002, -1022, -2008, -2014, -2015}


class UnknownMarket(VenueError):
    """The venue does not know the market (any more)."""


# ---- rights and markets


def rights(account: Account) -> Rights:
    """Ask what the key may do."""
    found = _signed("/sapi/v1/account/apiRestrictions", {}, account)
    names = (
        "enableReading", "enableSpotAndMarginTrading", "enableWithdrawals",
        "enableInternalTransfer", "permitsUniversalTransfer",
    )  # fmt: skip
    if not isinstance(found, dict) or not all(isinstance(found.get(n), bool) for n in names):
        raise VenueError("BAD_PAGE")
    can_trade = ("enableSpotAndMarginTrading", "enableMargin", "enableFutures")
    return Rights(
        found["enableReading"], any(found.get(name) is True for name in can_trade),
        any(found[name] for name in names[2:]),
    )  # fmt: skip


def markets() -> dict[str, str]:
    """Return the markets, such as ``BTC-USDT``, by the names that the venue gives them."""
    found = _get("/api/v3/exchangeInfo", "permissions=SPOT", None, max_bytes=INFO_LIMIT, total=20)
    try:
        return {
            row["symbol"]: f"{row['baseAsset']}-{row['quoteAsset']}"
            for row in found["symbols"]
            if row["symbol"] == row["baseAsset"] + row["quoteAsset"]
        }
    except (TypeError, KeyError):
        raise VenueError("BAD_PAGE") from None


def offered(account: Account) -> list[str]:
    """Return the markets of what the account holds: against what it holds, or against USDT."""
    asked = {"omitZeroBalances": "true"}
    found = _signed("/api/v3/account", asked, account)
    try:
        held = {
            row["asset"] for row in found["balances"]
            if float(row["free"]) or float(row["locked"])
        }  # fmt: skip
    except (TypeError, KeyError, ValueError):
        raise VenueError("BAD_PAGE") from None
    quotes = held | {USUAL_QUOTE}
    pairs = (market.split("-") for market in markets().values())
    return sorted(f"{base}-{quote}" for base, quote in pairs if base in held and quote in quotes)[
        :OFFERED
    ]


def checked(symbols: list[str]) -> tuple[list[str], list[str]]:
    """Return the markets meant by these names, in order, and the names that the venue lacks."""
    known = markets()
    named = {name.strip().upper().replace("-", "") for name in symbols}
    return sorted(known[name] for name in named & set(known)), sorted(named - set(known))


# ---- fills


@dataclass(frozen=True, slots=True)
class _Place:
    """Where reading goes on: the newest fills of a market, or those from an id or a time on."""

    market: str
    id: int | None = None
    start: int | None = None
    span: int = DAY

    def text(self) -> str:
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None})


def fills(account: Account, since: datetime, cursor: str) -> Page:
    """Fetch a page of fills from that moment on, market by market."""
    if not account.symbols:
        raise VenueError("NO_SYMBOLS")
    place = _place(account.symbols, cursor)
    if place is None:
        return Page([], 0, "")
    begin = int(since.timestamp() * 1000)
    try:
        rows = _rows(account, place)
    except UnknownMarket:  # it is gone, or was never one: the others are read all the same
        rows, following = [], _next(account.symbols, place.market)
    else:
        rows, following = _judged(account.symbols, place, rows, begin)
    read = [read_binance(row, place.market) for row in rows]
    return Page(
        [fill for fill in read if fill.ts >= since], 0, following.text() if following else ""
    )


def _place(symbols: tuple[str, ...], cursor: str) -> _Place | None:
    """Return where to read; None when the market of the cursor is gone and was the last."""
    if not cursor:
        return _Place(symbols[0])
    try:
        place = _Place(**json.loads(cursor))
    except (TypeError, ValueError):
        raise CursorRefused("CURSOR_REFUSED") from None
    return place if place.market in symbols else _next(symbols, place.market)


def _next(symbols: tuple[str, ...], market: str) -> _Place | None:
    return next((_Place(name) for name in symbols if name > market), None)


def _rows(account: Account, place: _Place) -> list[Any]:
    asked = {"symbol": place.market.replace("-", ""), "limit": str(PAGE)}
    if place.id is not None:
        asked["fromId"] = str(place.id)
    elif place.start is not None:
        asked |= {"startTime": str(place.start), "endTime": str(place.start + place.span - 1)}
    found = _signed("/api/v3/myTrades", asked, account)
    if not isinstance(found, list) or len(found) > PAGE:
        raise VenueError("BAD_PAGE")
    return found


def _judged(
    symbols: tuple[str, ...], place: _Place, rows: list[Any], begin: int
) -> tuple[list[Any], _Place | None]:
    """Return the rows that may be used, and the next place.

    Rows that are found from an id on are complete and in order. The newest ones are all where they
    are fewer than a page, or reach back far enough. Of a window that is full it is not known which
    ones the venue has left out: half of it is looked into.
    """
    following = _next(symbols, place.market)
    is_full = len(rows) == PAGE
    if place.id is not None:
        return rows, _Place(place.market, _last(rows) + 1) if is_full else following
    if place.start is None:
        if not is_full or min(map(_time, rows)) < begin:
            return rows, following
        return [], _Place(place.market, start=begin)
    if is_full and place.span > 1:
        return [], _Place(place.market, start=place.start, span=place.span // 2)
    if rows:
        return rows, _Place(place.market, _last(rows) + 1)
    after = place.start + place.span
    return [], following if after > time.time() * 1000 else _Place(place.market, start=after)


def _last(rows: list[Any]) -> int:
    return max(_whole(row, "id") for row in rows)


def _time(row: Any) -> int:
    return _whole(row, "time")


def _whole(row: Any, name: str) -> int:
    value = row.get(name) if isinstance(row, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise VenueError("BAD_ROW")
    return value


# ---- candles


def candles(symbol: str, start: datetime, end: datetime) -> list[list[str]]:
    """Fetch the hourly candles that open in ``[start, end)``: opening, o, h, l, c, v, as text."""
    asked = {
        "symbol": symbol.replace("-", ""), "interval": "1h", "limit": str(PAGE),
        "startTime": str(int(start.timestamp() * 1000)),
        "endTime": str(int(end.timestamp() * 1000) - 1),
    }  # fmt: skip
    found = _get("/api/v3/klines", urlencode(asked), None)
    try:
        read = [[str(row[0] // 1000), *row[1:6]] for row in found]
    except (TypeError, IndexError):
        raise VenueError("BAD_CANDLES") from None
    if not all(isinstance(cell, str) for row in read for cell in row):
        raise VenueError("BAD_CANDLES")
    return read


# ---- asking


def _signed(path: str, asked: dict[str, str], account: Account) -> Any:
    """Ask in the name of the account; once more where the clocks differ, or the key is refused."""
    offset = 0
    for is_last in (False, True):
        moment = int(time.time() * 1000) + offset
        query = urlencode({**asked, "recvWindow": "10000", "timestamp": moment}, quote_via=quote)
        signature = hmac.new(account.secret.encode(), query.encode(), hashlib.sha256).hexdigest()
        try:
            return _get(path, f"{query}&signature={signature}", account)
        except _ClockDiffers:
            if is_last:
                raise VenueAway("VENUE_ERROR") from None
            offset = _server_time() - int(time.time() * 1000)
        except KeyRefused:
            if is_last:
                raise
    raise AssertionError  # the last turn returns or raises


class _ClockDiffers(Exception):
    """The venue's clock is another one."""


def _server_time() -> int:
    return _whole(_get("/api/v3/time", "", None), "serverTime")


def _get(path: str, query: str, account: Account | None, **options: Any) -> Any:
    url = f"{settings().BINANCE_URL.rstrip('/')}{path}"
    headers = {"X-MBX-APIKEY": account.name} if account else {}
    answer = venue.get(f"{url}?{query}" if query else url, headers=headers, **options)
    used = answer.headers.get("X-MBX-USED-WEIGHT-1M", "")
    if used.isascii() and used.isdigit():
        limits.heed_weight(int(used[:9]))
    venue.check_status(answer)
    try:
        found = answer.json()
    except ValueError:
        found = None
    if answer.status_code < 300:
        if not isinstance(found, dict | list):
            raise VenueError("BAD_PAGE")
        return found
    _refuse(answer.status_code, found)


def _refuse(status: int, found: Any) -> None:
    """Raise what a refusal means."""
    code = found.get("code") if isinstance(found, dict) else None
    if code == _CLOCK:
        raise _ClockDiffers
    if code in _KEY or status == 401:
        raise KeyRefused("LINK_AGAIN")
    if status == 403:  # the venue's firewall, which says nothing about the key
        raise VenueAway("VENUE_ERROR")
    if code == _SYMBOL:
        raise UnknownMarket("VENUE_REFUSED")
    raise VenueError("VENUE_REFUSED")
