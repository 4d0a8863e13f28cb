"""When a failed attempt is tried again: policies as frozen values.

Every policy answers ``delay(failures, draw)`` for the n-th failure (from 1), where ``draw`` is
a number in [0, 1). Jitter only ever adds for ``additive``; ``full`` spreads between zero and the
computed delay. A ``Retry-After`` given by the handler is a floor that no jitter undercuts.
"""

from __future__ import annotations

import logging
import math
import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol, runtime_checkable

from jobs.errors import HandlerError

log = logging.getLogger("jobs.retry")

Jitter = Literal["none", "full", "additive"]
Duration = float | int | timedelta

ADDITIVE_SHARE = 0.25
"""``additive`` jitter adds up to this share of the delay."""


LONGEST = timedelta(days=366).total_seconds()


def seconds(value: Duration) -> float:
    """The duration in seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


@runtime_checkable
class Backoff(Protocol):
    """A policy of waiting between attempts."""

    def delay(self, failures: int, draw: float = 0.0) -> float:
        """Seconds to wait after the ``failures``-th failure."""
        ...


def _spread(delay: float, jitter: Jitter, draw: float) -> float:
    if jitter == "full":
        return delay * draw
    if jitter == "additive":
        return delay * (1 + ADDITIVE_SHARE * draw)
    return delay


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise HandlerError(f"backoff: {problem}")


def _check(jitter: Jitter, **durations: float) -> None:
    _require(jitter in ("none", "full", "additive"), f"jitter {jitter!r} is unknown")
    for name, value in durations.items():
        _require(_is_number(value), f"{name} must be a number of seconds, got {value!r}")
        _require(0 <= value < LONGEST, f"{name} must lie between 0 and 366 days, got {value}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, init=False)
class Delays:
    """Waits the given delays one after another, then the last one for ever."""

    delays: tuple[float, ...]
    jitter: Jitter

    def __init__(self, *delays: Duration, jitter: Jitter = "additive") -> None:
        _require(bool(delays), "Delays() needs at least one delay")
        plain = tuple(d.total_seconds() if isinstance(d, timedelta) else d for d in delays)
        for delay in plain:
            _check(jitter, delay=delay)
        object.__setattr__(self, "delays", tuple(float(d) for d in plain))
        object.__setattr__(self, "jitter", jitter)

    def delay(self, failures: int, draw: float = 0.0) -> float:
        index = min(max(failures, 1), len(self.delays)) - 1
        return _spread(self.delays[index], self.jitter, draw)


@dataclass(frozen=True)
class Exponential:
    """Waits ``base``, ``base * factor``, ``base * factor**2`` … up to ``cap`` seconds."""

    base: float = 1.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: Jitter = "additive"

    def __post_init__(self) -> None:
        _check(self.jitter, base=self.base, cap=self.cap)
        _require(_is_number(self.factor), f"factor must be a number, got {self.factor!r}")
        _require(1 <= self.factor < math.inf, "factor must be finite and at least 1")

    def delay(self, failures: int, draw: float = 0.0) -> float:
        exponent = min(max(failures, 1) - 1, 64)
        try:
            raw = self.base * self.factor**exponent
        except OverflowError:
            raw = self.cap
        return _spread(min(raw, self.cap), self.jitter, draw)


@dataclass(frozen=True)
class Linear:
    """Waits ``start``, ``start + step``, ``start + 2 * step`` … up to ``cap`` seconds."""

    start: float = 1.0
    step: float = 1.0
    cap: float = 3600.0
    jitter: Jitter = "additive"

    def __post_init__(self) -> None:
        _check(self.jitter, start=self.start, step=self.step, cap=self.cap)

    def delay(self, failures: int, draw: float = 0.0) -> float:
        raw = self.start + self.step * (max(failures, 1) - 1)
        return _spread(min(raw, self.cap), self.jitter, draw)


@dataclass(frozen=True)
class Fixed:
    """Waits the same number of seconds every time."""

    wait: float
    jitter: Jitter = "none"

    def __post_init__(self) -> None:
        _check(self.jitter, wait=self.wait)

    def delay(self, failures: int, draw: float = 0.0) -> float:
        return _spread(self.wait, self.jitter, draw)


@dataclass(frozen=True)
class Immediate:
    """Tries again at once."""

    def delay(self, failures: int, draw: float = 0.0) -> float:
        return 0.0


def next_delay(policy: Backoff, failures: int, floor: float = 0.0) -> float:
    """Seconds until the next attempt, drawn with jitter, never below ``floor``."""
    # A policy of the project's own may raise or answer anything; NaN is no moment, nor infinity.
    try:
        delay = float(policy.delay(failures, random.random()))
    except Exception:
        log.exception("the backoff policy %r failed", policy)
        delay = Exponential().delay(failures)
    delay = min(delay, LONGEST * (1 + ADDITIVE_SHARE)) if delay == delay else 0.0
    return max(delay, floor)
