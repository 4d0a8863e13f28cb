"""The states of a job, a dead letter and an event, and every legal move between them.

This table is the single source: the database triggers, ``docs/states.md`` and the tests are
compared with it. No ORM here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    """Where a job is in its life."""

    BLOCKED = "blocked"
    """Waits for its parents."""
    PENDING = "pending"
    """Waits in PostgreSQL: for its time, for its turn, or between two attempts."""
    QUEUED = "queued"
    """Admitted; its id has been, or is about to be, pushed to Redis."""
    RUNNING = "running"
    """Claimed by an executor and fenced by a token."""
    SUCCEEDED = "succeeded"
    """Done."""
    FAILED = "failed"
    """Failed for good; it has a dead letter if its kind uses them."""
    CANCELLED = "cancelled"
    """Stopped on request."""
    EXPIRED = "expired"
    """Not started before its expiry."""


class DeadLetterState(StrEnum):
    """What became of a failed job's entry among the dead letters."""

    OPEN = "open"
    """Waits for a decision."""
    RETRIED = "retried"
    """The job was retried."""
    REPLAYED = "replayed"
    """A new job was created from its payload."""
    DISCARDED = "discarded"
    """Closed without further action."""
    EXPIRED = "expired"
    """Not decided before its retention ended."""


class OutboxState(StrEnum):
    """How far an event is on its way from the transaction that wrote it to the feed."""

    PENDING = "pending"
    """Committed; waits for the relay."""
    FAILED = "failed"
    """A subscriber failed; it is retried later, and later events with the same key wait."""
    PARKED = "parked"
    """Failed too often, or set aside by hand; holds back later events with the same key."""
    PUBLISHED = "published"
    """It has its position in the feed; its row is deleted in the transaction that published it."""
    DISCARDED = "discarded"
    """Will not be published."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A named move from any of its sources to its target."""

    name: str
    sources: tuple[StrEnum, ...]
    target: StrEnum
    meaning: str


_S = JobState
JOB_EDGES: tuple[Edge, ...] = (
    Edge("unblock", (_S.BLOCKED,), _S.PENDING, "the last parent that it waited for is done"),
    Edge("dispatch", (_S.PENDING,), _S.QUEUED, "due and admitted; its id goes to Redis"),
    Edge("withdraw", (_S.QUEUED,), _S.PENDING, "it was taken back before it started"),
    Edge("claim", (_S.QUEUED,), _S.RUNNING, "an executor took it, with a fresh token"),
    Edge("succeed", (_S.RUNNING,), _S.SUCCEEDED, "the handler returned"),
    Edge("retry_later", (_S.RUNNING,), _S.PENDING, "the attempt failed and attempts are left"),
    Edge("snooze", (_S.RUNNING,), _S.PENDING, "the handler asked to run again later"),
    Edge("release", (_S.RUNNING,), _S.PENDING, "shutdown, preemption or a lost executor"),
    Edge("fail", (_S.RUNNING,), _S.FAILED, "no attempts are left, or another would not help"),
    Edge("stop", (_S.RUNNING,), _S.CANCELLED, "it stopped after a cancel request"),
    Edge(
        "cancel",
        (_S.BLOCKED, _S.PENDING, _S.QUEUED),
        _S.CANCELLED,
        "cancelled before it started",
    ),
    Edge(
        "expire",
        (_S.BLOCKED, _S.PENDING, _S.QUEUED),
        _S.EXPIRED,
        "its expiry passed before it started",
    ),
    Edge(
        "retry",
        (_S.FAILED, _S.CANCELLED, _S.EXPIRED),
        _S.PENDING,
        "it was retried, by a person or by code",
    ),
)

_D = DeadLetterState
DEAD_LETTER_EDGES: tuple[Edge, ...] = (
    Edge("retry", (_D.OPEN,), _D.RETRIED, "the failed job itself was retried"),
    Edge("replay", (_D.OPEN,), _D.REPLAYED, "a new job was created with its payload"),
    Edge("discard", (_D.OPEN,), _D.DISCARDED, "closed without another run"),
    Edge("expire", (_D.OPEN,), _D.EXPIRED, "retention ended while still open"),
)

_O = OutboxState
OUTBOX_EDGES: tuple[Edge, ...] = (
    Edge("publish", (_O.PENDING,), _O.PUBLISHED, "the relay assigned its position in the feed"),
    Edge("fail", (_O.PENDING,), _O.FAILED, "a subscriber raised an error; it is retried later"),
    Edge("try_again", (_O.FAILED,), _O.PENDING, "its next try is due"),
    Edge(
        "park", (_O.PENDING, _O.FAILED), _O.PARKED, "it failed too often, or was set aside by hand"
    ),
    Edge("release", (_O.PARKED,), _O.PENDING, "it was released by hand"),
    Edge(
        "discard",
        (_O.PENDING, _O.FAILED, _O.PARKED),
        _O.DISCARDED,
        "it was discarded by hand",
    ),
)
OUTBOX_FINAL_STATES = frozenset({_O.PUBLISHED, _O.DISCARDED})
"""States in which alone the row of an event may be deleted."""

BIRTH_STATES = frozenset({_S.BLOCKED, _S.PENDING, _S.QUEUED})
"""States in which a job may be inserted."""
FINAL_STATES = frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED, _S.EXPIRED})
"""States in which a job has an end, and in which alone its row may be deleted."""
RETRYABLE_STATES = frozenset({_S.FAILED, _S.CANCELLED, _S.EXPIRED})
"""Final states that a retry may leave; nothing leaves ``succeeded``."""


def moves(edges: tuple[Edge, ...]) -> frozenset[tuple[str, str]]:
    """The (from, to) pairs that the edges allow."""
    return frozenset((str(source), str(e.target)) for e in edges for source in e.sources)
