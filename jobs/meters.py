"""Meters: how much handlers call in a time, over the whole fleet and all kinds.

::

    binance = jobs.meter("binance", "6000/m", burst=600)

    binance.take(20)                        # in a handler, before a call that weighs 20
    answer = client.trades(symbol)
    if answer.status_code == 429:
        binance.close(http.retry_after(answer) or 60)

A rate of a kind says how often its jobs start; a meter says how often they call, however many calls
a job makes. In no window of the rate's time more is taken than the rate, however many take. Where
there is no room, ``take`` waits a moment; where that would be too long, the job is put off without
using an attempt.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial

from jobs.backoff import LONGEST, Duration, seconds
from jobs.context import Signal, current_signal
from jobs.declaring import agree
from jobs.engine import meters
from jobs.engine.breakers import aside
from jobs.engine.meters import Pace, Taken
from jobs.errors import HandlerError, MeterError
from jobs.limits import Rate, parse_rate
from jobs.names import label_problem
from jobs.outcomes import MeterFull, Stopped

NAME_LIMIT = 200
LONGEST_WAIT = 600.0
_LOOK = 0.05
"""Seconds between two looks at whether the job is to stop."""
_SPREAD_SHARE, _SPREAD_LEAST, _SPREAD_LIMIT = 0.1, 0.5, 5.0
_ANEW = 3
"""Times that a take is repeated whose answer came too late to be used."""


def meter(name: str, rate: str, burst: float | None = None, *, wait: Duration = 2.0) -> Meter:
    """Return the meter of that name, for every caller.

    ``rate`` is written ``100/s``, ``6000/m`` or ``3/10m`` and holds for any window of its time. It
    is spread evenly; ``burst`` says how much may be taken at once after an idle period. ``wait`` is
    how long a take may wait for its moment: up to ten minutes. Modules that declare the same meter
    must say the same rate and burst: raises MeterError.
    """
    made = Meter(name, rate, burst, wait)
    pace = made.pace
    said = f"{pace.amount:g} in {pace.span:g} s with a burst of {pace.burst:g}"
    agree("meter", name, said, MeterError)
    return made


class Meter:
    """A rate of calls that all workers share."""

    def __init__(self, name: str, rate: str, burst: float | None, wait: Duration) -> None:
        if problem := label_problem(name, NAME_LIMIT) or ("" if name else "is empty"):
            raise MeterError(f"meter: name {problem}")
        self.name = name
        self.wait = _waiting(name, wait)
        self.pace = _pace(name, rate, burst)

    def __repr__(self) -> str:
        return f"<Meter {self.name!r}>"

    def take(self, weight: int = 1, *, wait: Duration | None = None) -> None:
        """Return when so much may be called; a job waits, ends when asked to, or is put off.

        Begin the call at once. Where its moment lies further ahead than ``wait`` seconds, or the
        meter is closed for longer, this raises ``MeterFull``: in a handler the job runs again at
        about that moment, without using an attempt; elsewhere ``error.delay`` says in how many
        seconds. Refused inside a transaction, which would keep the meter locked.
        """
        meters.refuse_coroutines(self.name)
        meters.refuse_transactions(self.name)
        signal = current_signal()
        steps = self._steps(weight, wait, signal)
        for pause in steps:
            _sleep(pause, signal)

    async def take_async(self, weight: int = 1, *, wait: Duration | None = None) -> None:
        """``take`` for coroutines."""
        signal = current_signal()
        steps = self._steps(weight, wait, signal)

        def step() -> float | None:
            meters.refuse_transactions(self.name)
            return next(steps, None)

        while (pause := await aside(step)) is not None:
            await asyncio.sleep(pause)

    def close(self, until: datetime | Duration) -> None:
        """Let nobody take until then: a moment with a time zone, or this many seconds from now.

        For an answer that says "too many requests". A meter that is closed for longer stays so.
        """
        meters.refuse_coroutines(self.name)
        meters.refuse_transactions(self.name)
        self._close(*_end(self.name, until), current_signal())

    async def close_async(self, until: datetime | Duration) -> None:
        """``close`` for coroutines."""
        moment, length = _end(self.name, until)
        await aside(partial(self._close, moment, length, current_signal()))

    def _close(self, moment: datetime | None, length: float | None, signal: Signal | None) -> None:
        meters.refuse_transactions(self.name)
        meters.close(self.name, self.pace, moment, length, signal)

    def _steps(self, weight: int, wait: Duration | None, signal: Signal | None) -> Iterator[float]:
        """Ask, and yield the seconds to sleep in between; end when the call may begin."""
        if not isinstance(weight, int) or isinstance(weight, bool) or weight < 1:
            raise MeterError(f"meter {self.name!r}: weight must be a whole number above 0")
        if weight > self.pace.amount:
            raise MeterError(
                f"meter {self.name!r}: weight {weight} is more than the whole rate allows"
            )
        patience = self.wait if wait is None else _waiting(self.name, wait)
        end = time.monotonic() + patience
        for _ in range(_ANEW):
            asked = time.monotonic()
            most = max(0.0, end - asked)
            taken = meters.take(self.name, weight, self.pace, most, signal)
            if taken.wait > most:
                raise self._full(taken)
            if taken.wait > 0:
                yield taken.wait
            if not taken.is_taken:
                continue
            # Closed while it waited: nobody calls before its time, whatever was reserved.
            if taken.wait > 0 and (closed := meters.closed_for(self.name, signal)):
                raise self._full(Taken(closed, is_taken=False, is_closed=True))
            if time.monotonic() - asked - taken.wait <= self.pace.late:
                return
        raise self._full(Taken(0.0, is_taken=False, is_closed=False))

    def _full(self, taken: Taken) -> MeterFull:
        """How a job is put off, a little spread so that not all come back at once."""
        spread = min(_SPREAD_LIMIT, max(_SPREAD_LEAST, taken.wait * _SPREAD_SHARE))
        delay = taken.wait + random.uniform(0.0, spread)
        return MeterFull(self.name, delay, is_closed=taken.is_closed)


def _sleep(pause: float, signal: Signal | None) -> None:
    end = time.monotonic() + pause
    while (left := end - time.monotonic()) > 0:
        if signal is not None and signal.aborted:
            raise Stopped(signal.reason)
        time.sleep(left if signal is None else min(left, _LOOK))


def _pace(name: str, rate: object, burst: float | None) -> Pace:
    try:
        amount, span = parse_rate(rate)
        spread = Rate.parse(str(rate), burst)
    except HandlerError as error:
        raise MeterError(f"meter {name!r}: {error}") from None
    if amount < 1 or amount > 1_000_000_000:
        raise MeterError(f"meter {name!r}: rate {rate!r} must allow 1 to 1,000,000,000 in its time")
    if spread.burst > amount:
        raise MeterError(f"meter {name!r}: burst must be at most {amount:g}, got {burst!r}")
    return Pace(amount, span, float(spread.burst))


def _waiting(name: str, value: Duration) -> float:
    try:
        found = math.nan if isinstance(value, bool | str) else seconds(value)
    except (TypeError, ValueError):
        found = math.nan
    if not 0 <= found <= LONGEST_WAIT:
        raise MeterError(
            f"meter {name!r}: wait must lie between 0 and {LONGEST_WAIT:g} s, got {value!r}"
        )
    return found


def _end(name: str, until: object) -> tuple[datetime | None, float | None]:
    """The moment, or the seconds from now, until which a meter is closed."""
    if isinstance(until, datetime):
        if until.utcoffset() is None:
            raise MeterError(f"meter {name!r}: until must have a time zone, got {until!r}")
        return until, None
    try:
        found = math.nan if isinstance(until, bool | str) else seconds(until)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = math.nan
    if not 0 <= found <= LONGEST:
        raise MeterError(f"meter {name!r}: until must be a moment or seconds, got {until!r}")
    return None, found
