"""Coinbase Advanced Trade: the rights of a key, fills, and candles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from jobs import http
from trading.clients import signing, venue
from trading.clients.venue import Account, Page, Rights
from trading.config import settings
from trading.errors import CursorRefused, KeyRefused, VenueAway, VenueError
from trading.fills import Unknown, read_fill

PAGE = 250
CANDLES = 299
"""Candles of one request, both ends counted: the venue refuses 350 on some hosts and 300 on others.
"""
_API = "/api/v3/brokerage"


def rights(account: Account) -> Rights:
    """Ask what the key may do."""
    found = _get(f"{_API}/key_permissions", {}, account)
    flags = [found.get(name) for name in ("can_view", "can_trade", "can_transfer")]
    if not all(isinstance(flag, bool) for flag in flags):
        raise VenueError("BAD_PAGE")
    return Rights(*(bool(flag) for flag in flags))


def fills(account: Account, since: datetime, cursor: str) -> Page:
    """Fetch a page of fills from that moment on, newest first."""
    # The venue leaves out what was traded at the very moment.
    start = (since - timedelta(microseconds=1)).astimezone(UTC)
    asked = {"start_sequence_timestamp": f"{start:%Y-%m-%dT%H:%M:%S.%fZ}", "limit": str(PAGE)}
    if cursor:
        asked["cursor"] = cursor
    found = _get(f"{_API}/orders/historical/fills", asked, account)
    rows, following = found.get("fills"), found.get("cursor", "")
    if not isinstance(rows, list) or not isinstance(following, str):
        raise VenueError("BAD_PAGE")
    if found.get("proof_token_required"):
        raise VenueError("PROOF_TOKEN_REQUIRED")
    read, skipped = [], 0
    for row in rows:
        try:
            read.append(read_fill(row))
        except Unknown:
            skipped += 1
    return Page(read, skipped, following)


def candles(symbol: str, start: datetime, end: datetime) -> list[list[str]]:
    """Fetch the hourly candles that open in ``[start, end)``: opening, o, h, l, c, v, as text."""
    last = int(end.timestamp()) - 3600
    asked = {
        "start": str(int(start.timestamp())), "end": str(last), "granularity": "ONE_HOUR",
    }  # fmt: skip
    found = _get(f"{_API}/market/products/{quote(symbol, safe='')}/candles", asked, None)
    rows = found.get("candles")
    if not isinstance(rows, list):
        raise VenueError("BAD_CANDLES")
    names = ("start", "open", "high", "low", "close", "volume")
    try:
        read = [[row[name] for name in names] for row in rows]
    except (TypeError, KeyError):
        raise VenueError("BAD_CANDLES") from None
    if not all(isinstance(cell, str) for row in read for cell in row):
        raise VenueError("BAD_CANDLES")
    return read


def _get(path: str, asked: dict[str, str], account: Account | None) -> dict[str, Any]:
    answer = _answer(path, asked, account)
    if answer.status_code == 401 and account is not None:
        if not account.token:  # a new signature: clocks differ by a moment
            answer = _answer(path, asked, account)
        if answer.status_code == 401:
            raise KeyRefused("LINK_AGAIN")
    _judge(answer, asked)
    try:
        found = answer.json()
    except ValueError:
        raise VenueError("BAD_PAGE") from None
    if not isinstance(found, dict):
        raise VenueError("BAD_PAGE")
    return found


def _answer(path: str, asked: dict[str, str], account: Account | None) -> http.Response:
    base = http.URL(settings().COINBASE_URL)
    host = base.netloc.decode()
    headers = {}
    if account is not None:
        made = account.token or signing.token(account.name, account.secret, "GET", host, path)
        headers["Authorization"] = f"Bearer {made}"
    return venue.get(f"{base.scheme}://{host}{path}", params=asked, headers=headers)


def _judge(answer: http.Response, asked: dict[str, str]) -> None:
    """Raise what the status means; the body may be anything, such as HTML."""
    status = answer.status_code
    if status < 300:
        return
    venue.check_status(answer)
    said = answer.text[:10_000]
    if "proof_token_required" in said:
        raise VenueError("PROOF_TOKEN_REQUIRED")
    if status == 403:
        if "PERMISSION_DENIED" in said:
            raise KeyRefused("RIGHTS_MISSING")
        raise VenueAway("VENUE_ERROR")
    if status == 400 and "cursor" in asked and "cursor" in said.lower():
        raise CursorRefused("CURSOR_REFUSED")
    raise VenueError("VENUE_REFUSED")
