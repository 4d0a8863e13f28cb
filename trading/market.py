"""Market data: hourly candles, fetched in blocks, cached, without gaps and never still open."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.core.cache import cache

from jobs.flow import MeterFull
from trading import limits, venues
from trading.ai.bias import Candle
from trading.clients import vendor
from trading.clock import HOUR, hour_of, now
from trading.config import settings
from trading.errors import Limited, VenueAway, VenueError
from trading.models import Broker
from trading.money import amount

log = logging.getLogger(__name__)
BLOCK = 240
"""Hours of one request; blocks lie at fixed places, so that requests for other spans share them."""
KEEP = 3600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[int, Decimal, Decimal, Decimal, Decimal, Decimal]


class Prices(NamedTuple):
    """The hours of a market, and who has named them."""

    source: str
    rows: list[Row]


def prices(broker: str, symbol: str, start: datetime, end: datetime) -> Prices:
    """Return the hours as the venue names them, or all of them as the vendor does.

    The vendor is asked, where it may be, when the venue is away, asks to wait, or has no prices of
    the market. Raises what ``hours`` of the venue has raised where the vendor has none either.
    """
    try:
        found = Prices(broker, hours(symbol, start, end, broker))
        if found.rows or not settings().FEATURE_VENDOR_FALLBACK:
            return found
    except (VenueError, MeterFull) as error:
        may_help = isinstance(error, VenueAway | MeterFull) or error.code == "VENUE_REFUSED"
        if not may_help or not settings().FEATURE_VENDOR_FALLBACK:
            raise
        other = _of_vendor(symbol, start, end)
        if other is None:
            raise
        return other
    return _of_vendor(symbol, start, end) or found


def _of_vendor(symbol: str, start: datetime, end: datetime) -> Prices | None:
    try:
        rows = hours(symbol, start, end, vendor.NAME)
    except (VenueError, MeterFull) as error:
        code = error.code if isinstance(error, VenueError) else "VENUE_LIMITED"
        log.warning("the vendor has no prices of %s: %s", symbol, code)
        return None
    return Prices(vendor.NAME, rows) if rows else None


def hours(
    symbol: str, start: datetime, end: datetime, source: str = Broker.COINBASE.value
) -> list[Row]:
    """Return the closed hours that open in ``[start, end)``, without gaps.

    The series begins at the first candle found. An hour without trades repeats the close before it,
    with volume 0. Raises VenueError, and MeterFull while the venue asks to wait.
    """
    begin, stop = hour_of(start), min(hour_of(end), hour_of(now()))
    block = timedelta(hours=BLOCK)
    place = begin - (begin - _EPOCH) % block
    found: dict[int, Row] = {}
    while place < stop:
        last = min(place + block, hour_of(now()))
        found.update({row[0]: row for row in _block(source, symbol, place, last)})
        place += block
    return _filled(found, int(begin.timestamp()), int(stop.timestamp()))


def as_candles(rows: list[Row]) -> list[Candle]:
    """Return the hours as numbers, for indicators."""
    return [Candle(row[0], *map(float, row[1:])) for row in rows]


def _filled(found: dict[int, Row], begin: int, stop: int) -> list[Row]:
    rows: list[Row] = []
    zero = Decimal(0)
    for ts in range(begin, stop, 3600):
        if ts in found:
            rows.append(found[ts])
        elif rows:
            close = rows[-1][4]
            rows.append((ts, close, close, close, close, zero))
    return rows


def _asked(source: str) -> tuple[Callable[[str, datetime, datetime], list[list[str]]], Any]:
    if source == vendor.NAME:
        return vendor.candles, (limits.vendor, 1)
    return venues.of(source).candles, limits.of_market(source)


def _block(source: str, symbol: str, start: datetime, end: datetime) -> list[Row]:
    """Return the candles of a block; a cached one that cannot be read is fetched again."""
    key = f"ohlcv:{source}:{symbol}:1h:{int(start.timestamp())}:{int(end.timestamp())}"
    kept = _kept(key)
    if kept is not None:
        try:
            return _read(kept, start, end)
        except VenueError:
            pass
    fetch, (meter, weight) = _asked(source)
    meter.take(weight)
    try:
        raw = fetch(symbol, start, end)
    except Limited as error:
        limits.close(meter, error)
        raise MeterFull(meter.name, error.seconds, is_closed=True) from None
    rows = _read(raw, start, end)
    _keep(key, raw)
    return rows


def _kept(key: str) -> list[list[str]] | None:
    try:
        found = cache.get(key)
    except Exception:  # a cache that is away is no reason not to ask the venue
        return None
    return found if isinstance(found, list) else None


def _keep(key: str, raw: list[list[str]]) -> None:
    try:
        cache.set(key, raw, KEEP)
    except Exception:
        return


def _read(raw: list[list[str]], start: datetime, end: datetime) -> list[Row]:
    """Return the candles of the span in order; raise VenueError for an impossible one."""
    rows: dict[int, Row] = {}
    try:
        for cells in raw:
            ts = int(cells[0])
            opening, high, low, close, volume = (amount(cell) for cell in cells[1:])
            if ts % 3600 or not 0 < low <= min(opening, close) <= max(opening, close) <= high:
                raise VenueError("BAD_CANDLES")
            if volume < 0 or ts in rows:
                raise VenueError("BAD_CANDLES")
            if (
                start <= _EPOCH + timedelta(seconds=ts)
                and _EPOCH + timedelta(seconds=ts) + HOUR <= end
            ):
                rows[ts] = (ts, opening, high, low, close, volume)
    except (TypeError, ValueError, IndexError, ArithmeticError):
        raise VenueError("BAD_CANDLES") from None
    return [rows[ts] for ts in sorted(rows)]
