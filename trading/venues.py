"""The venues: which client speaks to which, and what a link needs to be read."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from jobs import http
from trading.clients import binance, coinbase, coinbase_login
from trading.clients.venue import Account, Page, Rights
from trading.clock import now
from trading.config import settings
from trading.errors import KeyRefused
from trading.models import Broker, BrokerConnection

AHEAD = timedelta(minutes=1)
"""How long before its end a token is refreshed."""
TOKEN = ("access_token", "refresh_token", "expires_at")


class Venue(Protocol):
    """What the client of a venue offers."""

    def rights(self, account: Account) -> Rights:
        """Ask what the key may do."""

    def fills(self, account: Account, since: datetime, cursor: str) -> Page:
        """Fetch a page of fills."""

    def candles(self, symbol: str, start: datetime, end: datetime) -> list[list[str]]:
        """Fetch hourly candles."""


_VENUES: dict[str, Venue] = {Broker.COINBASE: coinbase, Broker.BINANCE: binance}


def of(broker: str) -> Venue:
    """Return the client of the venue."""
    return _VENUES[broker]


def is_on(broker: str) -> bool:
    """Return whether accounts of the venue are offered here."""
    return broker != Broker.BINANCE or settings().FEATURE_BINANCE


def check_login(link: BrokerConnection) -> None:
    """Ask Coinbase something in the name of a login; raise VenueError."""
    since = now() - timedelta(minutes=1)
    try:
        coinbase.fills(account_of(link), since, "")
    except KeyRefused:
        coinbase.fills(account_of(link, is_refused=True), since, "")


def account_of(link: BrokerConnection, *, is_refused: bool = False) -> Account:
    """Return what requests need, with a token that has not expired.

    Of many processes with one stale token one refreshes it; the others wait for it. Raises
    VenueError; not to be called inside a transaction.
    """
    if not link.access_token:
        return Account(link.key_name or "", link.secret or "", symbols=tuple(link.symbols))
    is_over = link.expires_at is not None and link.expires_at - AHEAD <= now()
    if is_over or is_refused:
        http.refresh_once(
            link, lambda row: coinbase_login.refreshed(row.refresh_token or ""), fields=TOKEN
        )
    return Account(token=link.access_token or "")
