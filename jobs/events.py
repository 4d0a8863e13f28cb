"""Events: what they are made of, and who is told of them before they are in the feed.

::

    jobs.emit("order.paid", {"order": order.id}, key=f"order:{order.id}", tenant=order.company)

    @events.subscriber("order.*")
    def forward(event: jobs.Event) -> None: ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel

from jobs import conf, jsontext, redaction
from jobs.errors import EventError
from jobs.ids import uuid7
from jobs.names import label_problem, name_problem

Audience = Literal["tenant", "staff"]
Redactor = Callable[[str, Any], Any]
"""Takes a topic and a payload, answers the payload that may be told."""
Subscriber = Callable[["Event"], object]
S = TypeVar("S", bound=Subscriber)

RESERVED = "jobs."
"""Topics that begin so are the core's own."""
OF_BATCHES = "jobs.batch."
"""So do those of batches, whose jobs may be of any queue; all others are of one, or of none."""
KEY_LIMIT = 200
PATTERN_LIMIT = 50
_PATTERN = re.compile(r"[A-Za-z0-9_.:\-*]+\Z")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the feed."""

    position: int
    id: UUID
    """The same whenever the event is told again."""
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


def message(
    topic: str,
    payload: Mapping[str, Any] | BaseModel,
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
    if not isinstance(payload, Mapping | BaseModel):
        raise EventError(
            "payload", f"must be a dict or a pydantic model, got {type(payload).__name__}"
        )
    if _redactor is not None:
        payload = _redactor(topic, payload)
    try:
        text = redaction.scrub_json(jsontext.dumps(payload, conf.settings().EVENT_LIMIT))
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
    """The globs, checked: ``*`` stands for any text. None and "*" mean every topic."""
    if topics is None:
        return ()
    if isinstance(topics, str):
        topics = [topics]
    found = tuple(topics)
    for pattern in found:
        if not isinstance(pattern, str) or not _PATTERN.match(pattern) or len(pattern) > KEY_LIMIT:
            raise EventError(
                "topics", f"{pattern!r} is no topic; write one like 'order.paid' or 'order.*'"
            )
    if not found or len(found) > PATTERN_LIMIT:
        raise EventError("topics", f"must name 1 to {PATTERN_LIMIT} topics")
    return () if "*" in found else found


def expression(globs: Iterable[str]) -> str:
    """A regular expression, of Python and of PostgreSQL, that matches what any of them does."""
    alternatives = ("".join(".*" if c == "*" else _literal(c) for c in glob) for glob in globs)
    return f"^({'|'.join(alternatives)})$"


def _literal(character: str) -> str:
    return f"\\{character}" if character in ".-" else character


# ---- what may be told

_redactor: Redactor | None = None


def set_redactor(redactor: Redactor | None) -> None:
    """Every payload that Python emits goes through this function first; None removes it."""
    global _redactor
    _redactor = redactor


# ---- who is told before the feed


@dataclass(frozen=True, slots=True)
class Subscription:
    """A function that is told of topics, in the transaction that puts them into the feed."""

    name: str
    function: Subscriber
    matches: re.Pattern[str] | None

    def wants(self, topic: str) -> bool:
        return self.matches is None or self.matches.match(topic) is not None


_subscriptions: dict[str, Subscription] = {}


def subscriber(*topics: str, name: str = "") -> Callable[[S], S]:
    """The decorated function is called with every event of the topics that is to be published.

    It runs in the relay, in the transaction that publishes: what it writes to the database of
    the jobs is written once, with the event's position. Where it raises, the event and those with
    its key wait and are tried again. Anything outside it may do twice.
    """
    globs = patterns(topics or None)
    matches = re.compile(expression(globs)) if globs else None

    def register(function: S) -> S:
        called = name or f"{function.__module__}.{function.__qualname__}"
        _subscriptions[called] = Subscription(called, function, matches)
        return function

    return register


def unsubscribe(name: str) -> None:
    """The subscriber of this name is told nothing any more."""
    _subscriptions.pop(name, None)


def subscriptions() -> tuple[Subscription, ...]:
    """Everybody who is told, in the order of registration."""
    return tuple(_subscriptions.values())
