"""How a listener learns that there is nothing for it: one cause, one code of each way."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError

from jobs.errors import Denied, EventError, FeedGone
from jobs.realtime.hub import TooMany, TooManyOfOne, TooSlow
from jobs.realtime.refusals import NobodyKnown, NotFound, Refused
from jobs.realtime.tickets import Away


@dataclass(frozen=True, slots=True)
class Answer:
    """A status of HTTP, a close code of WebSocket, and words for people."""

    status: int
    code: int
    kind: str
    title: str
    detail: str

    @property
    def reason(self) -> str:
        """The detail, as short as a close frame needs it."""
        return self.detail.encode()[:120].decode(errors="ignore")


TROUBLES = (
    *(Denied, EventError, FeedGone, NobodyKnown, NotFound, Refused, TooSlow, TooMany, Away),
    *(DatabaseError, InterfaceError),
)
"""What is answered; anything else is a fault of this code."""


def answer(trouble: Exception) -> Answer:
    """What is said about the trouble."""
    match trouble:
        case EventError():
            return Answer(400, 4400, "bad-request", "Bad request", str(trouble))
        case NobodyKnown():
            return Answer(401, 4401, "unauthenticated", "Not authenticated", "log in first")
        case Refused() | Denied():
            return Answer(403, 4403, "forbidden", "Forbidden", str(trouble))
        case NotFound():
            detail = str(trouble) or "there is no such thing"
            return Answer(404, 4404, "not-found", "Not found", detail)
        case TooSlow():
            detail = "too slow: come again with since= your last position"
            return Answer(503, 4408, "too-slow", "Too slow", detail)
        case FeedGone():
            return Answer(410, 4410, "feed-gone", "Position is gone", str(trouble))
        case TooManyOfOne():
            return Answer(429, 4429, "throttled", "Too many of yours", str(trouble))
        case TooMany():
            detail = "too many listeners: come again later"
            return Answer(503, 1013, "too-many", "Too many listeners", detail)
        case Away():
            detail = "Redis does not answer: come again later"
            return Answer(503, 1013, "unavailable", "Unavailable", detail)
        case _:
            detail = "the database does not answer: come again later"
            return Answer(503, 1013, "unavailable", "Unavailable", detail)
