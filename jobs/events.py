"""Events: what they are made of, and who gets them before they are in the feed.

::

    jobs.emit("order.paid", {"order": order.id}, key=f"order:{order.id}", tenant=order.company)

    @events.subscriber("order.*")
    def forward(event: jobs.events.Event) -> None: ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel

from jobs import conf, jsontext, lazy, redaction
from jobs.errors import EventError
from jobs.ids import uuid7
from jobs.names import label_problem, name_problem
from jobs.redaction import Vouched

if TYPE_CHECKING:
    from jobs.engine.feed import feed as feed
    from jobs.engine.feed import feed_head as feed_head
    from jobs.engine.outbox import emit as emit
else:
    __getattr__ = lazy.attach("jobs.events", {
        "emit": "jobs.engine.outbox", "feed": "jobs.engine.feed", "feed_head": "jobs.engine.feed",
    })  # fmt: skip

Audience = Literal["tenant", "staff"]
Told = Mapping[str, Any] | BaseModel | Vouched
"""What may be the payload of an event."""
Redactor = Callable[[str, Any], Any]
"""Takes a topic and a payload, returns the payload that may be published."""
Subscriber = Callable[["Event"], object]
S = TypeVar("S", bound=Subscriber)

RESERVED = "jobs."
"""Topics that begin so are the core's own."""
OF_BATCHES = "jobs.batch."
"""So do those of batches, whose jobs may be of any queue; all others are of one, or of none."""
KEY_LIMIT = 200
PATTERN_LIMIT = 50
"""Globs of one question or webhook."""
STAR_LIMIT = 8
"""Stars of one glob."""
_PATTERN = re.compile(r"[A-Za-z0-9_.:\-*]+\Z")
_STARS = re.compile(r"\*+")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the feed."""

    position: int
    id: UUID
    """The same whenever the event is delivered again."""
    topic: str
    key: str
    """Events of one tenant with the same key come in the order of their commits."""
    tenant: str
    audience: str
    payload: dict[str, Any]
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class Message:
    """An event that is checked and not written yet; ``text`` is its payload as JSON."""

    id: UUID
    topic: str
    key: str
    tenant: str
    audience: str
    text: str


def emit_many(messages: Iterable[Message]) -> list[UUID]:
    """Tell many events, made by ``message``, in the surrounding transaction; return their ids.

    ::

        events.emit_many(events.message("order.paid", {"order": o.id}, key=f"order:{o.id}")
                         for o in orders)

    As ``jobs.emit`` for each of them, in their order, by a statement for a thousand of them.
    """
    from jobs.engine import outbox

    return outbox.emit_many(messages)


def message(
    topic: str,
    payload: Told,
    *,
    key: str = "",
    tenant: str = "",
    audience: Audience = "tenant",
    is_core: bool = False,
) -> Message:
    """The message, if it may be written; raises EventError that names what is wrong."""
    check_topic(topic, is_core=is_core)
    if key != "" and (problem := label_problem(key, KEY_LIMIT)):
        raise EventError("key", problem)
    if tenant != "" and (problem := label_problem(tenant)):
        raise EventError("tenant", problem)
    if audience not in ("tenant", "staff"):
        raise EventError("audience", f"must be 'tenant' or 'staff', got {audience!r}")
    told: Any = payload.value if isinstance(payload, Vouched) else payload
    if not isinstance(told, Mapping | BaseModel):
        raise EventError(
            "payload", f"must be a dict or a pydantic model, got {type(told).__name__}"
        )
    if _redactor is not None:
        told = _redactor(topic, told)
    try:
        text = redaction.storable(
            Vouched(told) if isinstance(payload, Vouched) else told, conf.settings().EVENT_LIMIT
        )
    except jsontext.UnstorableValue as found:
        raise EventError(f"payload.{found.field}".rstrip("."), found.problem) from None
    return Message(uuid7(), topic, key, tenant, audience, text)


def check_topic(topic: object, *, is_core: bool = False) -> None:
    """Raises EventError where this names no topic, or one that is not for everyone to use."""
    if problem := name_problem(topic):
        raise EventError("topic", problem)
    if not is_core and str(topic).lower().startswith(RESERVED):
        raise EventError("topic", f"{topic!r}: topics that begin with {RESERVED!r} are reserved")


# ---- which topics


def patterns(topics: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the globs, checked: ``*`` stands for any text. None and "*" mean every topic.

    Adjacent stars become one, and a glob has few of them.
    """
    if topics is None:
        return ()
    if isinstance(topics, str):
        topics = [topics]
    given = tuple(islice(topics, PATTERN_LIMIT + 1))
    if not 1 <= len(given) <= PATTERN_LIMIT:
        raise EventError("topics", f"must name 1 to {PATTERN_LIMIT} topics")
    found = tuple(map(_glob, given))
    return () if "*" in found else found


def _glob(pattern: object) -> str:
    if not isinstance(pattern, str) or len(pattern) > KEY_LIMIT or not _PATTERN.match(pattern):
        shown = pattern[:KEY_LIMIT] if isinstance(pattern, str) else pattern
        raise EventError(
            "topics", f"{shown!r} is no topic; write one like 'order.paid' or 'order.*'"
        )
    glob = _STARS.sub("*", pattern)
    if glob.count("*") > STAR_LIMIT:
        raise EventError("topics", f"{glob!r} has more than {STAR_LIMIT} stars")
    return glob


@lru_cache(4096)
def matches(globs: tuple[str, ...], topic: str) -> bool:
    """Return whether any of the globs matches the topic; without globs, every topic matches.

    The time it takes grows with the lengths of both, whatever the globs are.
    """
    return not globs or any(_matches(glob, topic) for glob in globs)


def _matches(glob: str, topic: str) -> bool:
    """Find the texts between the stars in their order, each at its first place.

    A regular expression would try every combination of places.
    """
    first, *rest = glob.split("*")
    if not rest:
        return topic == first
    *between, last = rest
    if not topic.startswith(first):
        return False
    place = len(first)
    for text in between:
        place = topic.find(text, place)
        if place < 0:
            return False
        place += len(text)
    return len(topic) - len(last) >= place and topic.endswith(last)


def likes(globs: Iterable[str]) -> list[str]:
    """Return the globs as patterns of SQL's LIKE, which matches them without backtracking."""
    return [glob.replace("_", r"\_").replace("*", "%") for glob in globs]


# ---- what may be published

_redactor: Redactor | None = None


def set_redactor(redactor: Redactor | None) -> None:
    """Every payload that Python emits goes through this function first; None removes it."""
    global _redactor
    _redactor = redactor


# ---- who gets events before the feed


@dataclass(frozen=True, slots=True)
class Subscription:
    """A function that gets events of topics, in the transaction that puts them into the feed."""

    name: str
    function: Subscriber
    globs: tuple[str, ...]

    def wants(self, topic: str) -> bool:
        return matches(self.globs, topic)


_subscriptions: dict[str, Subscription] = {}


def subscriber(*topics: str, name: str = "") -> Callable[[S], S]:
    """The decorated function is called with every event of the topics that is to be published.

    It runs in the relay, in the transaction that publishes: what it writes to the database of
    the jobs is written once, with the event's position. Where it raises, the event and those with
    its key wait and are tried again. Anything outside it may do twice.
    """
    globs = patterns(topics or None)

    def register(function: S) -> S:
        called = name or f"{function.__module__}.{function.__qualname__}"
        _subscriptions[called] = Subscription(called, function, globs)
        return function

    return register


def unsubscribe(name: str) -> None:
    """The subscriber of this name gets nothing any more."""
    _subscriptions.pop(name, None)


def subscriptions() -> tuple[Subscription, ...]:
    """Every subscriber, in the order of registration."""
    return tuple(_subscriptions.values())
