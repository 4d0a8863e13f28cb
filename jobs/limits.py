"""Limits as values: how many at once, how often, and what counts as the same job."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from jobs.errors import HandlerError
from jobs.names import label_problem

_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(\d*)\s*(s|m|h|d)\s*\Z")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_ROUND_SECONDS = 0.02
"""Rates above one start per dispatch round need that many tokens at hand."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of starts per time, evenly spread; ``burst`` may start at once after a pause."""

    per_second: float
    burst: float

    @classmethod
    def parse(cls, value: str | Rate, burst: float | None = None) -> Rate:
        """The rate written like ``100/s``, ``50/m``, ``3/10m``; raises HandlerError."""
        if isinstance(value, Rate):
            return value
        count, span = parse_rate(value)
        per_second = count / span
        if burst is None:
            burst = max(1.0, per_second * _ROUND_SECONDS)
        if not math.isfinite(burst) or burst < 1:
            raise HandlerError(f"the burst of rate {value!r} must be at least 1")
        return cls(per_second, burst)


def parse_rate(value: object) -> tuple[float, float]:
    """Return how many in how many seconds a rate like ``100/s`` allows; raise HandlerError."""
    match = _RATE.match(value) if isinstance(value, str) else None
    if match is None:
        raise HandlerError(f"rate {value!r} is not like '100/s', '50/m' or '3/10m'")
    count, amount, unit = match.groups()
    span = float(amount or 1) * _UNITS[unit]
    if float(count) <= 0 or span <= 0:
        raise HandlerError(f"rate {value!r} must be above zero")
    if float(count) / span > 1_000_000:
        raise HandlerError(f"rate {value!r} is more than a million a second")
    return float(count), span


@dataclass(frozen=True, init=False)
class Limit:
    """How many may be queued or running at once, how often one may start, or both."""

    at_once: int | None
    rate: Rate | None

    def __init__(
        self,
        at_once: int | None = None,
        rate: str | Rate | None = None,
        burst: float | None = None,
    ) -> None:
        if at_once is None and rate is None:
            raise HandlerError("Limit needs at_once, a rate, or both")
        if at_once is not None and (
            not isinstance(at_once, int) or isinstance(at_once, bool) or at_once < 1
        ):
            raise HandlerError(f"at_once must be a whole number above zero, got {at_once!r}")
        if burst is not None and rate is None:
            raise HandlerError("burst means nothing without a rate")
        object.__setattr__(self, "at_once", at_once)
        object.__setattr__(self, "rate", None if rate is None else Rate.parse(rate, burst))


UniqueFor = Literal["unfinished", "ever", "waiting"] | timedelta
OnConflict = Literal["return", "replace", "raise"]

KEY_LIMIT = 200
_LONGEST = timedelta(days=3660)


@dataclass(frozen=True, init=False)
class Unique:
    """One job per key, kind and tenant.

    ``for_`` says how long the key is taken: while the job is ``"unfinished"``, for a duration
    from its enqueue (first wins), for ``"ever"``, or while it is ``"waiting"``. What a second
    enqueue does is said by ``on_conflict``: ``"return"`` the existing job, ``"raise"`` when its
    payload differs, or ``"replace"`` payload and time of a job that still waits (debounce, which
    goes with ``"waiting"`` only). ``at_most`` bounds a debounce: however often it is replaced, the
    job is due so long after its first enqueue at the latest.
    """

    key: str
    for_: UniqueFor
    on_conflict: OnConflict
    at_most: timedelta | None

    def __init__(
        self,
        key: str,
        for_: UniqueFor = "unfinished",
        on_conflict: OnConflict | None = None,
        *,
        at_most: timedelta | None = None,
    ) -> None:
        if problem := label_problem(key, KEY_LIMIT):
            raise HandlerError(f"unique key {problem}")
        if not key:
            raise HandlerError("unique key is empty")
        if isinstance(for_, timedelta):
            if not timedelta(0) < for_ <= _LONGEST:
                raise HandlerError("Unique: for_ must be above zero and at most ten years")
        elif for_ not in ("unfinished", "ever", "waiting"):
            raise HandlerError(
                f"Unique: for_ must be 'unfinished', 'ever', 'waiting' or a timedelta, got {for_!r}"
            )
        if on_conflict is None:
            on_conflict = "replace" if for_ == "waiting" else "return"
        if on_conflict not in ("return", "replace", "raise"):
            raise HandlerError(f"Unique: on_conflict {on_conflict!r} is unknown")
        if (on_conflict == "replace") != (for_ == "waiting"):
            raise HandlerError("Unique: 'replace' and for_='waiting' go together")
        if at_most is not None:
            if for_ != "waiting":
                raise HandlerError("Unique: at_most goes with for_='waiting' only")
            if not isinstance(at_most, timedelta) or not timedelta(0) < at_most <= _LONGEST:
                raise HandlerError(
                    f"Unique: at_most must be a timedelta of up to ten years, got {at_most!r}"
                )
        object.__setattr__(self, "at_most", at_most)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "for_", for_)
        object.__setattr__(self, "on_conflict", on_conflict)
