"""Which function handles which kind, and the rules that hold for each.

``@jobs.handler(PayloadClass, …)`` registers; ``autodiscover()`` imports every installed app's
``handlers`` and ``tasks`` modules once, so that web processes and workers know the same kinds.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar

from jobs import conf, retention
from jobs import isolation as isolation_
from jobs import searchable as fields
from jobs.backoff import Backoff, Duration, Exponential, seconds
from jobs.errors import HandlerError, UnknownKind
from jobs.isolation import Isolated, Isolation
from jobs.limits import Limit, Rate
from jobs.names import name_problem
from jobs.outcomes import DEFAULT_CRASH_LIMIT
from jobs.payloads import Payload
from jobs.retention import Keep, Kept
from jobs.states import JobState

OnTimeout = Literal["retry", "fail"]
OnLost = Literal["rerun", "fail", "in_doubt"]
ExpiresUnless = Literal["started", "succeeded"]
F = TypeVar("F", bound=Callable[..., Any])

ATOMIC_TIMEOUT_LIMIT = 10.0
"""Seconds that an atomic handler may take: it holds a transaction open."""
_LONGEST = timedelta(days=366).total_seconds()
_FLAGS = (
    "replayable", "dead_letter", "atomic", "preempts", "preemptible", "killable", "emits",
    "internal",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Handler:
    """A kind's function and its rules."""

    payload: type[Payload]
    function: Callable[..., Any]
    queue: str
    max_attempts: int
    backoff: Backoff
    timeout: float
    expires: float | None
    expires_unless: ExpiresUnless
    lease: float
    on_lost: OnLost
    crash_limit: int
    replayable: bool
    dead_letter: bool
    atomic: bool
    is_async: bool
    limit: Limit | None
    per_key: Limit | None
    on_timeout: OnTimeout
    preempts: bool
    preemptible: bool
    killable: bool
    preemptions: int | None
    grace: float
    isolation: Isolation | None
    emits: bool
    keep_completed: Keep | None
    keep_failed: Keep | None
    keep_cancelled: Keep | None
    keep_expired: Keep | None
    dead_letter_retention: Keep | None
    searchable: tuple[str, ...]
    internal: bool
    own_keys: str

    @property
    def kind(self) -> str:
        return self.payload.kind

    @property
    def has_admission_rules(self) -> bool:
        """Whether the dispatcher must have its say before a job of this kind may be queued."""
        return self.limit is not None or self.per_key is not None

    def keep(self, state: str) -> Keep | None:
        """Return how long its jobs stay that have ended so, where the kind says it."""
        rules = {
            JobState.SUCCEEDED: self.keep_completed,
            JobState.FAILED: self.keep_failed,
            JobState.CANCELLED: self.keep_cancelled,
            JobState.EXPIRED: self.keep_expired,
        }
        return rules.get(JobState(state))


_handlers: dict[str, Handler] = {}
_by_name: dict[str, Handler] = {}
_discovered = False


def handler(
    payload: type[Payload],
    *,
    queue: str | None = None,
    max_attempts: int | None = None,
    backoff: Backoff | None = None,
    timeout: Duration | None = None,
    expires: Duration | None = None,
    expires_unless: ExpiresUnless = "succeeded",
    lease: Duration | None = None,
    on_lost: OnLost = "rerun",
    crash_limit: int = DEFAULT_CRASH_LIMIT,
    replayable: bool = True,
    dead_letter: bool = True,
    atomic: bool = False,
    concurrency: int | None = None,
    rate: str | Rate | None = None,
    burst: float | None = None,
    per_key: Limit | None = None,
    on_timeout: OnTimeout = "retry",
    preempts: bool = False,
    preemptible: bool = False,
    killable: bool = False,
    preemptions: int | None = None,
    grace: Duration | None = None,
    isolation: Isolated | None = None,
    memory: int | str | None = None,
    cpu: Duration | None = None,
    files: int | None = None,
    processes: int | None = None,
    emits: bool = False,
    keep_completed: Kept | None = None,
    keep_failed: Kept | None = None,
    keep_cancelled: Kept | None = None,
    keep_expired: Kept | None = None,
    dead_letter_retention: Kept | None = None,
    searchable: tuple[str, ...] = (),
    internal: bool = False,
    own_keys: str = "",
) -> Callable[[F], F]:
    """Registers the decorated function for the payload's kind.

    The function takes ``(ctx, payload)`` and may be ``async``; what it returns is stored as the
    job's result. ``atomic`` runs it in one transaction with its own completion. ``concurrency``
    and ``rate`` hold for the kind over the whole fleet, ``per_key`` for each ``limit_key`` given
    at enqueue. ``preempts`` lets its jobs push ``preemptible`` ones of lower priority off their
    exclusive key, each of these ``preemptions`` times at most; one that does not obey may be killed
    where it is ``killable``. ``grace`` is how long a handler may go on after its timeout before its
    process is killed. ``isolation="process"`` runs each attempt in a process of its own, within
    limits of ``memory``, ``cpu`` time, open ``files`` and ``processes``. ``emits``
    publishes every move of its jobs as an event. A job that waits when its time to expire is over
    ends, also between two attempts; with ``expires_unless="started"`` only one that was never
    claimed. ``keep_completed``, ``keep_failed``, ``keep_cancelled`` and ``keep_expired`` say how
    long jobs stay that have ended so: a duration, how many, or both by a ``Keep``;
    ``dead_letter_retention`` says so of its open dead letters, which hold their jobs.
    ``searchable`` names fields of the payload by whose values jobs are found quickly. Jobs of an
    ``internal`` kind are made by code only: over the API, in the admin and at the command line
    nobody enqueues, schedules or edits them, and nobody replays them with another payload.
    ``own_keys`` is a prefix of exclusive keys that people and programs cannot give to jobs of
    other kinds.
    """

    # Also where the decorator is used without parentheses, which would register nothing.
    if not (isinstance(payload, type) and issubclass(payload, Payload) and payload.kind):
        raise HandlerError(
            f"handler: payload must be a jobs.Payload subclass with a kind, got {payload!r}"
        )

    def register(function: F) -> F:
        settings = conf.settings()
        made = Handler(
            payload=payload,
            function=function,
            queue=settings.DEFAULT_QUEUE if queue is None else queue,
            max_attempts=settings.MAX_ATTEMPTS if max_attempts is None else max_attempts,
            backoff=Exponential() if backoff is None else backoff,
            timeout=_default_timeout(atomic) if timeout is None else _seconds("timeout", timeout),
            expires=None if expires is None else _seconds("expires", expires),
            expires_unless=expires_unless,
            lease=settings.LEASE if lease is None else _seconds("lease", lease),
            on_lost=on_lost,
            crash_limit=crash_limit,
            replayable=replayable,
            dead_letter=dead_letter,
            atomic=atomic,
            is_async=inspect.iscoroutinefunction(function),
            limit=_limit(concurrency, rate, burst),
            per_key=per_key,
            on_timeout=on_timeout,
            preempts=preempts,
            preemptible=preemptible,
            killable=killable,
            preemptions=preemptions,
            grace=settings.GRACE if grace is None else _seconds("grace", grace),
            isolation=isolation_.parse(isolation, memory, cpu, files, processes),
            emits=emits,
            keep_completed=retention.parse("keep_completed", keep_completed),
            keep_failed=retention.parse("keep_failed", keep_failed),
            keep_cancelled=retention.parse("keep_cancelled", keep_cancelled),
            keep_expired=retention.parse("keep_expired", keep_expired),
            dead_letter_retention=retention.parse("dead_letter_retention", dead_letter_retention),
            searchable=searchable,
            internal=internal,
            own_keys=own_keys,
        )
        _validate(made)
        _register(made)
        return function

    return register


def find(kind: str) -> Handler | None:
    """The handler of a kind or of one of its old names, if any."""
    return _by_name.get(kind)


def is_internal(kind: str) -> bool:
    """Return whether jobs of this kind are made by code only."""
    found = find(kind)
    return found is not None and found.internal


def owners(key: str) -> list[str]:
    """Return the kinds to which an exclusive key belongs, by its prefix."""
    return [one.kind for one in handlers() if one.own_keys and key.startswith(one.own_keys)]


def get(kind: str) -> Handler:
    """The handler of a kind or of one of its old names; raises UnknownKind."""
    autodiscover()
    found = _by_name.get(kind)
    if found is None:
        near = difflib.get_close_matches(kind, _by_name, n=1)
        raise UnknownKind(kind, f"; did you mean {near[0]!r}?" if near else "")
    return found


def handlers() -> list[Handler]:
    """Every registered handler, by kind."""
    autodiscover()
    return [_handlers[kind] for kind in sorted(_handlers)]


def autodiscover() -> None:
    """Every installed app's ``handlers``, ``tasks`` and ``schedules`` have been imported."""
    global _discovered
    if _discovered:
        return
    from django.utils.module_loading import autodiscover_modules

    _discovered = True
    try:
        autodiscover_modules("handlers", "tasks", "schedules")
    except BaseException:
        _discovered = False
        raise


def unregister(kind: str) -> None:
    """The kind and its old names are unknown again (for tests)."""
    gone = _handlers.pop(kind)
    for name in [name for name, known in _by_name.items() if known is gone]:
        del _by_name[name]


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise HandlerError(f"handler: {name} must be seconds or a timedelta, got {value!r}")
    return seconds(value)


def _default_timeout(atomic: bool) -> float:
    timeout = conf.settings().TIMEOUT
    return min(timeout, ATOMIC_TIMEOUT_LIMIT) if atomic else timeout


def _register(made: Handler) -> None:
    names = (made.kind, *made.payload.aliases)
    for name in names:
        known = _by_name.get(name)
        if known is not None and _identity(known) != _identity(made):
            raise HandlerError(
                f"kind {name!r} is handled by {known.function.__module__}."
                f"{known.function.__qualname__} already"
            )
    _handlers[made.kind] = made
    for name in names:
        _by_name[name] = made


def _limit(at_once: int | None, rate: str | Rate | None, burst: float | None) -> Limit | None:
    if at_once is None and rate is None and burst is None:
        return None
    return Limit(at_once, rate, burst)


def _identity(h: Handler) -> tuple[str, str]:
    # By name, not by object: reloading a module registers the same handler once more.
    return h.function.__module__, h.function.__qualname__


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _validate(h: Handler) -> None:
    def require(condition: bool, problem: str) -> None:
        if not condition:
            raise HandlerError(f"handler of {h.payload.__qualname__}: {problem}")

    require(not name_problem(h.queue), f"queue {name_problem(h.queue)}")
    require(
        _is_count(h.max_attempts) and 1 <= h.max_attempts <= 1000,
        "max_attempts must lie between 1 and 1000",
    )
    require(isinstance(h.backoff, Backoff), "backoff must be Delays, Exponential, Linear, Fixed…")
    require(0 < h.timeout <= _LONGEST, "timeout must be positive and at most 366 days")
    require(h.expires is None or 0 < h.expires <= _LONGEST * 10, "expires must be positive")
    require(
        h.expires_unless in ("started", "succeeded"),
        f"expires_unless must be 'started' or 'succeeded', got {h.expires_unless!r}",
    )
    require(h.lease >= conf.settings().LEASE, "lease cannot be shorter than JOBS['LEASE']")
    require(h.lease <= _LONGEST, "lease must be at most 366 days")
    require(h.on_lost in ("rerun", "fail", "in_doubt"), f"on_lost {h.on_lost!r} is unknown")
    require(
        _is_count(h.crash_limit) and 1 <= h.crash_limit <= 1000,
        "crash_limit must lie between 1 and 1000",
    )
    require(h.on_timeout in ("retry", "fail"), f"on_timeout {h.on_timeout!r} is unknown")
    require(
        h.preemptions is None or (_is_count(h.preemptions) and 0 <= h.preemptions <= 1000),
        "preemptions must lie between 0 and 1000",
    )
    require(
        h.preemptions is None or h.preemptible,
        "preemptions means nothing unless its jobs are preemptible",
    )
    require(0 <= h.grace <= _LONGEST, "grace must not be negative and at most 366 days")
    require(h.per_key is None or isinstance(h.per_key, Limit), "per_key must be a jobs.Limit")
    require(
        h.dead_letter or h.dead_letter_retention is None,
        "dead_letter_retention means nothing without dead letters",
    )
    unfit = fields.problem(h.payload, h.searchable)
    require(not unfit, unfit)
    require(
        isinstance(h.own_keys, str) and len(h.own_keys) <= 60,
        "own_keys must be a prefix of at most 60 characters",
    )
    for flag in _FLAGS:
        require(isinstance(getattr(h, flag), bool), f"{flag} must be True or False")
    if h.atomic:
        require(not h.is_async, "atomic handlers cannot be async")
        require(
            h.timeout <= ATOMIC_TIMEOUT_LIMIT,
            f"atomic handlers need a timeout of at most {ATOMIC_TIMEOUT_LIMIT:g} s",
        )
        require(h.on_lost == "rerun", "atomic handlers are always rerun when lost")
    parameters = list(inspect.signature(h.function).parameters.values())
    require(
        len([p for p in parameters if p.default is p.empty]) == 2
        and all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters[:2]),
        "it must take (ctx, payload)",
    )
