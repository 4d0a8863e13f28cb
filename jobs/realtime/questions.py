"""What a listener asks for, and what of the feed he is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from jobs import events
from jobs.errors import EventError
from jobs.events import RESERVED, Event
from jobs.names import label_problem
from jobs.principals import Principal

OPTIONS = ("since", "topics", "tenant", "batch", "limit", "ticket")
LONGEST = 2**63 - 1_000_000
LIMIT = 1000
"""Events that one answer to a GET holds at most."""


@dataclass(frozen=True, slots=True)
class View:
    """What one listener is shown; listeners with equal views are told the same words."""

    topics: tuple[str, ...] = ()
    tenants: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    is_staff: bool = False
    batch: str = ""

    def shows(self, event: Event) -> bool:
        """Whether the event is for this listener, and asked for."""
        if event.audience != "tenant" and not self.is_staff:
            return False
        if self.tenants is not None and event.tenant not in self.tenants:
            return False
        if self.topics and not _matcher(self.topics).match(event.topic):
            return False
        if self.queues is not None and event.topic.startswith(RESERVED):
            queue = event.payload.get("queue")
            if queue is not None and queue not in self.queues:
                return False
        return not self.batch or (
            event.key == f"batch:{self.batch}" or event.payload.get("batch") == self.batch
        )

    @property
    def tenants_to_read(self) -> list[str] | None:
        """What the feed itself can leave out, so that it need not be read."""
        return None if self.tenants is None or self.is_staff else sorted(self.tenants)


@lru_cache(1000)
def _known(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _matcher(topics: tuple[str, ...]) -> re.Pattern[str]:
    return _known(events.expression(topics))


@dataclass(frozen=True, slots=True)
class Question:
    """From where on somebody wants to know, and what."""

    view: View
    since: int | None = None
    limit: int = 100


def question(asked: Mapping[str, str], who: Principal, since: str | None = None) -> Question:
    """What the options of an address ask for; raises EventError that names the wrong one.

    What lies outside the scope of whoever asks is not there: a tenant that he may not see has no
    events. ``since`` goes before the option of that name: it is where a browser left off.
    """
    for name in asked:
        if name not in OPTIONS:
            raise EventError(name[:50], f"is unknown; there are {', '.join(OPTIONS[:-1])}")
    start = since if since is not None else asked.get("since")
    return Question(
        View(
            events.patterns(_words(asked.get("topics"))),
            _tenants(_words(asked.get("tenant")), who),
            who.scope.queues,
            who.is_staff,
            _batch(asked.get("batch", "")),
        ),
        None if start is None else _number("since", start, 0, LONGEST),
        _number("limit", asked.get("limit", "100"), 1, LIMIT),
    )


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",")]


def _tenants(asked: Iterable[str] | None, who: Principal) -> frozenset[str] | None:
    if asked is None:
        return who.scope.tenants
    for name in asked:
        if problem := label_problem(name):
            raise EventError("tenant", problem)
    return frozenset(name for name in asked if who.scope.covers(tenant=name))


def _batch(text: str) -> str:
    try:
        return str(UUID(text)) if text else ""
    except ValueError:
        raise EventError("batch", "must be the id of a batch") from None


def _number(option: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise EventError(
            option, f"must be a whole number from {least} to {most}, got {text[:30]!r}"
        )
    return int(text)
