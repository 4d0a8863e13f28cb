"""CryptoCompare, the vendor of prices where a venue has none: hourly candles over all venues.

It answers most errors with status 200, fills hours before a market existed with zeros, and may be
behind: each of these would be taken for prices.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from trading import metrics
from trading.clients import venue
from trading.config import settings
from trading.errors import Limited, VenueAway, VenueError

NAME = "cryptocompare"
_LIMITED = 99
_NAMES = ("time", "open", "high", "low", "close", "volumefrom")


def candles(symbol: str, start: datetime, end: datetime) -> list[list[str]]:
    """Fetch the hourly candles that open in ``[start, end)``: opening, o, h, l, c, v, as text."""
    base, quote = symbol.split("-")
    last = int(end.timestamp()) - 3600
    count = (last - int(start.timestamp())) // 3600
    asked = {
        "fsym": base, "tsym": quote, "toTs": str(last), "limit": str(max(1, count)),
        "tryConversion": "false",  # a price by way of another market is none of this one
    }  # fmt: skip
    found = _get("/data/v2/histohour", asked)
    try:
        rows = [[row[name] for name in _NAMES] for row in found["Data"]["Data"]]
        newest = max((int(row[0]) for row in rows), default=0)
    except (TypeError, KeyError, ValueError):
        raise VenueError("BAD_CANDLES") from None
    if newest < last:
        raise VenueError("VENDOR_STALE")
    if not all(isinstance(cell, str) for row in rows for cell in row):
        raise VenueError("BAD_CANDLES")
    return [row for row in rows if any(float(cell) for cell in row[1:5])]


def _get(path: str, asked: dict[str, str]) -> dict[str, Any]:
    s = settings()
    headers = {"Authorization": f"Apikey {s.VENDOR_API_KEY}"} if s.VENDOR_API_KEY else {}
    answer = venue.get(f"{s.VENDOR_URL.rstrip('/')}{path}", params=asked, headers=headers)
    if answer.status_code >= 500:
        raise VenueAway("VENUE_ERROR")
    try:  # numbers stay text, as they were written
        found = json.loads(answer.text, parse_float=str, parse_int=str)
    except ValueError:
        found = None
    said = found if isinstance(found, dict) else {}
    if answer.status_code == 429 or said.get("Type") == str(_LIMITED):
        metrics.limited.inc(source="vendor")
        raise Limited(venue.wait_of(answer))
    if answer.status_code >= 300 or said.get("Response") != "Success":
        is_market = said.get("ParamWithError") in ("fsym", "tsym") or "market" in str(
            said.get("Message", "")
        )
        raise VenueError("VENUE_REFUSED" if is_market else "VENDOR_REFUSED")
    return said
