"""The statements of meters, each on the meter's own row and committed by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from jobs.context import Signal
from jobs.engine import delayed, sql
from jobs.engine.steady import steadily
from jobs.errors import MeterError
from jobs.outcomes import MeterFull

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    """How much a meter allows: an amount in a span of seconds, and how much of it at once."""

    amount: float
    span: float
    burst: float

    @property
    def late(self) -> float:
        """Return how many seconds after its moment a call may begin, and still be within."""
        return min(2.0, max(0.1, self.span / 20))


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to a take: the seconds until its moment, and whether that is reserved for it."""

    wait: float
    is_taken: bool
    is_closed: bool


_TAKE = "SELECT * FROM jobs_take_meter(%s, %s::int, %s, %s, %s, %s, %s)"
_CLOSED = """
SELECT extract(epoch FROM closed_until - jobs_clock())::float8 FROM jobs_meter
WHERE name = %s AND closed_until > jobs_clock()
"""
_MAKE = """
INSERT INTO jobs_meter (name, amount, span, burst, tokens, taken_until, spent, part)
VALUES (%s, %s, %s, %s, %s, jobs_clock(), array_fill(0, ARRAY[41]), 0) ON CONFLICT DO NOTHING
"""
_CLOSE = """
UPDATE jobs_meter SET closed_until = greatest(closed_until,
  coalesce(%s::timestamptz, jobs_clock() + %s::float8 * interval '1 s')) WHERE name = %s
"""
_IDLE = """
DELETE FROM jobs_meter WHERE name IN (SELECT name FROM jobs_meter
  WHERE taken_until < jobs_clock() - greatest(span * 2, 86400) * interval '1 s'
    AND (closed_until IS NULL OR closed_until <= jobs_clock()) LIMIT 1000 FOR UPDATE SKIP LOCKED)
"""


def take(name: str, weight: int, pace: Pace, most: float, signal: Signal | None) -> Taken:
    """Reserve the next moment at which so much may be called, if it comes within ``most`` seconds.

    An answer that was lost costs its moment, and nothing more.
    """
    given = [name, weight, pace.amount, pace.span, pace.burst, pace.late, most]
    [row] = _asked(lambda: sql.bound_rows(_TAKE, given), signal)
    return Taken(*row)


def closed_for(name: str, signal: Signal | None) -> float:
    """Return for how many seconds the meter is closed; 0 where it is open."""
    found = _asked(lambda: sql.bound_rows(_CLOSED, [name]), signal)
    return float(found[0][0]) if found else 0.0


def close(
    name: str, pace: Pace, until: datetime | None, seconds: float | None, signal: Signal | None
) -> None:
    """Let nobody take until then, or until the moment to which it was closed before."""
    made = [name, pace.amount, pace.span, pace.burst, pace.burst]
    _asked(lambda: sql.run(_MAKE, made), signal)
    _asked(lambda: sql.run(_CLOSE, [until, seconds, name]), signal)


def release(name: str) -> int:
    """Make the jobs due that the meter has put off; return how many there were."""
    return delayed.release(MeterFull.words(name))


def forget_idle() -> None:
    """Remove meters that nobody has taken from for a day and twice their span."""
    sql.run(_IDLE)


def refuse_transactions(name: str) -> None:
    """Raise MeterError where the meter's row would stay locked until a transaction ends."""
    if sql.in_transaction():
        raise MeterError(
            f"meter {name!r}: inside a transaction its row would stay locked for everybody until "
            "that ends; take before transaction.atomic, and not in atomic handlers"
        )


def refuse_coroutines(name: str) -> None:
    """Raise MeterError in a coroutine, which must not wait in this way."""
    if sql.in_event_loop():
        raise MeterError(f"meter {name!r}: in a coroutine, say: await meter.take_async(…)")


def _asked(step: Callable[[], T], signal: Signal | None) -> T:
    """The step's answer; a handler waits for its database, everybody else is told."""
    return sql.repeating(step) if signal is None else steadily(step, signal)
