"""Errors of the app: their codes, and the sentences that people read.

What a venue or the AI service has said is never stored; its code stands for it.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

import jobs

SENTENCES: dict[str, Any] = {
    "VENUE_OFF": _("This venue is not switched on here."),
    "NO_SYMBOLS": _("No market of this account is chosen; choose those whose fills are read."),
    "LOGIN_REFUSED": _("Coinbase refuses this project's own client; see COINBASE_CLIENT_ID."),
    "LOGIN_FAILED": _("The login at Coinbase was cancelled, or has expired; begin again."),
    "NO_LOGIN": _("Logging in at Coinbase is not set up here; link the account with a key."),
    "NO_MARKETS": _("Markets are chosen for accounts of Binance only."),
    "NO_LINK": _("No account is linked; link one first."),
    "SEVERAL_LINKS": _("Several accounts are linked; name one."),
    "LINK_PAUSED": _("The link is paused."),
    "LINK_REVOKED": _("The link was revoked."),
    "KEY_REFUSED": _("The venue refuses the key; check its name and the private key."),
    "LINK_AGAIN": _("The venue refuses the key; link the account again."),
    "RIGHTS_MISSING": _("The key lacks the right to read; link the account with another key."),
    "KEY_CAN_TRANSFER": _("The key may withdraw or transfer; use one that may only read."),
    "KEY_CAN_TRADE": _("The key may trade; confirm that you want to link it all the same."),
    "KEY_INVALID": _("The private key cannot be read: a PEM of an EC key, or an Ed25519 key."),
    "VENUE_AWAY": _("The venue cannot be reached."),
    "VENUE_ERROR": _("The venue has failed; it is asked again."),
    "VENUE_REFUSED": _("The venue refuses the request."),
    "VENUE_LIMITED": _("The venue asks to wait."),
    "VENUE_LIMITED_FOR_A_DAY": _("The venue has asked to wait for more than a day."),
    "PROOF_TOKEN_REQUIRED": _("The venue demands a proof token for this account."),
    "BAD_ROW": _("The venue has sent a fill that lacks a field or has an impossible value."),
    "BAD_PAGE": _("The venue's answer cannot be read."),
    "BAD_CANDLES": _("The venue's candles cannot be read."),
    "VENDOR_STALE": _("The vendor's prices are behind."),
    "VENDOR_REFUSED": _("The vendor of prices refuses the request; see VENDOR_API_KEY."),
    "CURSOR_REFUSED": _("The venue has refused its own cursor several times."),
    "CURSOR_REPEATS": _("The venue's pages go in circles."),
    "AI_AWAY": _("The AI service does not answer."),
    "AI_REFUSED": _("The AI service refuses the figures."),
    "AI_BAD_ANSWER": _("The AI service has answered in a wrong shape."),
    "NOT_SET_UP": _("AI_BASE_URL and its key are not set; see manage.py check."),
    "NOT_YOURS": _("The job names another user."),
    "NOT_FOUND": _("There is no such thing."),
    "NOT_COUNTED": _("The fill was reversed or corrected."),
    "BAD_PERIOD": _("A digest covers one week, from Monday to Monday."),
    "STOPPED": _("The job was ended before it was done."),
}


class Refused(jobs.JobsError):
    """A request was refused, and nothing of it was stored."""

    def __init__(self, code: str, message: str = "", field: str = "", **details: Any) -> None:
        self.code, self.field, self.details = code, field, details
        self.message = message or str(SENTENCES.get(code, code))
        super().__init__(f"{field}: {self.message}" if field else self.message)


class VenueError(Exception):
    """The venue did not answer as needed. ``code`` is one of ``SENTENCES``."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


class VenueAway(VenueError):
    """A timeout, a broken connection or a 5xx: asking again may help."""


class KeyRefused(VenueError):
    """The venue refuses the credentials or their rights; only the user can help."""


class CursorRefused(VenueError):
    """The venue does not know its cursor any more."""


class Limited(VenueError):
    """The venue asks to wait for a number of seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__("VENUE_LIMITED")
        self.seconds = seconds


class AiAway(Exception):
    """A timeout, a 5xx or a refused signature of the AI service."""


class AiRefused(Exception):
    """The AI service refuses this series; asking again would not help."""
