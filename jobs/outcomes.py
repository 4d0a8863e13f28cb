"""How an attempt can end: what a handler raises to steer its job, and the pure decision.

``decide`` looks at an outcome and at the counters of the job and says which move follows. It
touches no database; the guarded statement in ``engine.claims`` makes the move.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from jobs.backoff import Duration, next_delay, seconds
from jobs.states import JobState

if TYPE_CHECKING:
    from jobs.registry import Handler


class Steer(Exception):
    """Base of what a handler raises to decide what happens to its job."""


class Unrecoverable(Steer):
    """Fails the job at once, whatever attempts are left."""


class Snooze(Steer):
    """Runs the job again after ``delay``, without using up an attempt."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        self.delay = seconds(delay)
        if not 0 <= self.delay <= timedelta(days=366).total_seconds():
            raise ValueError("Snooze: delay must lie between 0 and 366 days")
        super().__init__(reason or f"snoozed for {self.delay:g} s")


class RetryAfter(Steer):
    """Counts as a failure, and is tried again no earlier than after ``delay``."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        self.delay = seconds(delay)
        if not 0 <= self.delay <= timedelta(days=366).total_seconds():
            raise ValueError("RetryAfter: delay must lie between 0 and 366 days")
        super().__init__(reason or f"retry after {self.delay:g} s")


class RateLimited(Steer):
    """Closes a scope for everyone until ``retry_after`` has passed, and runs the job again then.

    ``scope`` is ``"kind"`` (the default), ``"queue"`` or ``"key"`` (the job's limit key). Uses no
    attempt.
    """

    def __init__(
        self, retry_after: Duration, scope: Literal["kind", "queue", "key"] = "kind"
    ) -> None:
        self.delay = seconds(retry_after)
        if not 0 <= self.delay <= timedelta(days=366).total_seconds():
            raise ValueError("RateLimited: retry_after must lie between 0 and 366 days")
        if scope not in ("kind", "queue", "key"):
            raise ValueError(f"RateLimited: scope must be 'kind', 'queue' or 'key', got {scope!r}")
        self.scope = scope
        super().__init__(f"rate limited for {self.delay:g} s")


class InDoubt(Steer):
    """Parks the job for a person: nobody knows whether one of its effects happened."""


class CircuitOpen(Steer):
    """Runs the job again after ``delay``: what it calls is known to be out of order.

    Raised by a breaker before anything was called. Uses no attempt.
    """

    def __init__(self, name: str, delay: float) -> None:
        self.name, self.delay = name, delay
        super().__init__(f"{self.words(name)} for {delay:.1f} s")

    @staticmethod
    def words(name: str) -> str:
        """Return how the message begins, which the history of a delayed job keeps."""
        return f"circuit {name} is open"


class MeterFull(Steer):
    """Runs the job again after ``delay``: a meter has no room for its call now, or is closed.

    Raised by a meter before anything was called. Uses no attempt.
    """

    def __init__(self, name: str, delay: float, *, is_closed: bool = False) -> None:
        self.name, self.delay, self.is_closed = name, delay, is_closed
        state = "closed" if is_closed else "full"
        super().__init__(f"{self.words(name)}{state} for {delay:.1f} s")

    @staticmethod
    def words(name: str) -> str:
        """Return how the message begins, which the history of a delayed job keeps."""
        return f"meter {name} is "


class Stopped(BaseException):
    """Raised by ``ctx.checkpoint()`` once the job has been asked to stop."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class DatabaseLost(Stopped):
    """The engine could not write what it had to, in the time that the attempt had."""

    def __init__(self, message: str) -> None:
        super().__init__("database_lost")
        self.message = message


Ending = Literal[
    "failed",  # the handler raised
    "unrecoverable",  # it raised Unrecoverable
    "snoozed",  # it raised Snooze
    "timeout",  # it outlived its timeout
    "crashed",  # its process died under it (proved)
    "lost",  # its executor fell silent, or was stopped with the handler still in it
    "released",  # it was handed back before anything was done
    "cancelled",  # it obeyed a cancel request
    "preempted",  # it made way for another job
    "held",  # a limit or an open circuit stopped it before it did anything
    "in_doubt",  # nobody knows whether one of its effects happened
    "unknown_kind",  # nobody here knows the kind
    "bad_payload",  # the stored payload no longer validates
    "bad_result",  # the returned value cannot be stored
]


LOSSES: dict[Ending, str] = {
    "timeout": "Timeout", "crashed": "Crash", "lost": "ExecutorLost",
}  # fmt: skip
"""What is shown as the class of the error where a process was ended or has died."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong, as it will be shown."""

    error_class: str
    message: str
    traceback: str = ""
    exception: BaseException | None = field(default=None, compare=False, repr=False)
    """A redacted copy of what was raised, for logs and error trackers; it is not stored."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The numbers of a job on which a decision depends, as read by its claim."""

    failures: int
    crashes: int
    releases: int
    max_attempts: int


@dataclass(frozen=True, slots=True)
class Move:
    """Where the job goes, and what is written beside it."""

    state: JobState
    why: str
    delay: float = 0.0
    failed: int = 0
    crashed: int = 0
    released: int = 0
    preempted: int = 0
    attempt: str | None = None
    """The outcome of the Attempt row, or None when the attempt leaves none."""
    reason: str = ""
    """Why a failed job failed, as one word; also the reason of its dead letter."""


_FINAL_ENDINGS = frozenset(
    {"unrecoverable", "unknown_kind", "bad_payload", "bad_result", "in_doubt"}
)

DEFAULT_CRASH_LIMIT = 3
RELEASE_LIMIT = 100
"""Hand-backs after which a job is given up, so that none circulates for ever."""


def decide(
    ending: Ending,
    counters: Counters,
    handler: Handler | None,
    *,
    floor: float = 0.0,
    why: str = "",
) -> Move:
    """The move that follows from an ending; ``handler`` is None where the kind is unknown."""
    why = why or ending
    if ending == "snoozed":
        return Move(JobState.PENDING, why, delay=floor)
    if ending == "cancelled":
        return Move(JobState.CANCELLED, why)
    if ending == "released":
        return _release(counters, why)
    if ending in ("crashed", "lost"):
        return _lose(ending, counters, handler, why, floor)
    if ending == "preempted":
        return Move(JobState.PENDING, why, delay=floor, preempted=1)
    if ending == "held":
        return Move(JobState.PENDING, why, delay=floor)
    if ending in _FINAL_ENDINGS or handler is None:
        # Whether a failure may be repeated, nobody here knows without the handler.
        code = "unknown_kind" if ending == "failed" else ending
        return Move(JobState.FAILED, why, failed=1, attempt="failed", reason=code)
    outcome = "timeout" if ending == "timeout" else "failed"
    failures = counters.failures + 1
    given_up = ending == "timeout" and handler.on_timeout == "fail"
    if given_up or failures >= counters.max_attempts:
        reason = "timeout" if ending == "timeout" else "exhausted"
        return Move(JobState.FAILED, why, failed=1, attempt=outcome, reason=reason)
    delay = next_delay(handler.backoff, failures, floor)
    return Move(JobState.PENDING, why, delay=delay, failed=1, attempt=outcome)


def _release(counters: Counters, why: str) -> Move:
    if counters.releases + 1 >= RELEASE_LIMIT:
        return Move(JobState.FAILED, why, released=1, attempt="lost", reason="released_too_often")
    return Move(JobState.PENDING, why, released=1)


def _lose(
    ending: Ending, counters: Counters, handler: Handler | None, why: str, delay: float
) -> Move:
    """A crash is counted as a crash, a silence as a release; neither as a failure."""
    crashed, released = (1, 0) if ending == "crashed" else (0, 1)
    on_lost = handler.on_lost if handler else "rerun"
    limit = handler.crash_limit if handler else DEFAULT_CRASH_LIMIT
    reason = ""
    if on_lost == "fail":
        reason = "lost"
    elif on_lost == "in_doubt":
        reason = "in_doubt"
    elif counters.crashes + crashed >= limit and crashed:
        reason = "crash_loop"
    elif counters.releases + released >= RELEASE_LIMIT:
        reason = "released_too_often"
    state = JobState.FAILED if reason else JobState.PENDING
    return Move(
        state,
        why,
        delay=0.0 if reason else delay,
        crashed=crashed,
        released=released,
        attempt=ending,
        reason=reason,
    )
