"""What the clients of all venues share: accounts, rights, pages, and how they are asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jobs import http
from trading import metrics
from trading.errors import Limited, VenueAway, VenueError
from trading.fills import Fill

PAUSE = 60.0
"""Seconds to wait after a 429 that does not say how long."""


@dataclass(frozen=True, slots=True)
class Account:
    """What requests in the name of a user need."""

    name: str = ""
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    """A bearer token instead of a key."""
    symbols: tuple[str, ...] = ()
    """The markets to read, in order, where the venue has to be asked for each."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a key may do."""

    can_view: bool
    can_trade: bool
    can_transfer: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Some fills, and where the next ones are."""

    fills: list[Fill]
    skipped: int
    cursor: str


def get(url: str, **options: Any) -> http.Response:
    """Ask a venue; raise VenueError where no answer comes."""
    try:
        return http.get(url, **{"connect": 1, "step": 3, "total": 6, **options})
    except http.HttpError as error:
        if error.transient:
            raise VenueAway("VENUE_AWAY") from None
        raise VenueError("BAD_PAGE" if isinstance(error, http.TooLarge) else "VENUE_AWAY") from None


def wait_of(answer: http.Response) -> float:
    """Return the seconds that an answer asks to wait."""
    return http.retry_after(answer) or PAUSE


def check_status(answer: http.Response) -> None:
    """Raise Limited where the venue asks to wait, and VenueAway where it has failed."""
    if answer.status_code in (418, 429):
        metrics.limited.inc(source="broker")
        raise Limited(wait_of(answer))
    if answer.status_code >= 500:
        raise VenueAway("VENUE_ERROR")
