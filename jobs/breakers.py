"""Circuit breakers that all workers share.

::

    meta = jobs.breaker("meta:page:7", threshold=5, open_for=120, counts=(MetaDown, TimeoutError))

    with meta:                              # in a handler, around the call of the service
        client.publish(post)
    answer = meta.call(client.publish, post)

After ``threshold`` failures in a row the circuit opens: nobody calls for ``open_for`` seconds, and
jobs that would are delayed without using an attempt. Then one of them calls as a probe; its success
closes the circuit for all, its failure opens it again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from jobs.backoff import Duration, seconds
from jobs.effects import NotHappened
from jobs.engine import breakers
from jobs.engine.breakers import Pass
from jobs.errors import BreakerError
from jobs.names import label_problem
from jobs.outcomes import CircuitOpen, Steer

P = ParamSpec("P")
T = TypeVar("T")

NAME_LIMIT = 200
_LONGEST = 86400.0
PROBE_WAIT = 5.0
"""Jobs that meet a circuit under probe come back after at most so many seconds."""
_SPREAD_SHARE, _SPREAD_LIMIT = 0.05, 5.0


_held: ContextVar[tuple[tuple[Breaker, Pass], ...]] = ContextVar("jobs_breakers", default=())
"""The passes of the blocks around the present moment, in this thread or coroutine."""


def breaker(
    name: str,
    threshold: int = 5,
    open_for: Duration = 60,
    *,
    counts: type[BaseException] | tuple[type[BaseException], ...] = Exception,
    probe_for: Duration = 60,
) -> Breaker:
    """The breaker of that name, whoever uses it.

    It opens after ``threshold`` failures in a row and lets a probe through after ``open_for``.
    Failures are exceptions of ``counts``; any other exception means that the service answered,
    except what steers a job (``Snooze``, ``RateLimited`` …), which says nothing unless ``counts``
    names it. A probe that is not heard of for ``probe_for`` is replaced by another.
    """
    return Breaker(name, threshold, open_for, counts, probe_for)


class Breaker:
    """Use it as a context manager, sync or async, or through ``call``."""

    def __init__(
        self,
        name: str,
        threshold: int,
        open_for: Duration,
        counts: type[BaseException] | tuple[type[BaseException], ...],
        probe_for: Duration,
    ) -> None:
        if problem := label_problem(name, NAME_LIMIT) or ("" if name else "is empty"):
            raise BreakerError(f"breaker: name {problem}")
        if not isinstance(threshold, int) or isinstance(threshold, bool) or threshold < 1:
            raise BreakerError(f"breaker: threshold must be a whole number above 0: {threshold!r}")
        self.name, self.threshold = name, threshold
        self.open_for = _duration("open_for", open_for)
        self.probe_for = _duration("probe_for", probe_for)
        self.counts = counts if isinstance(counts, tuple) else (counts,)
        if not self.counts or not all(
            isinstance(each, type) and issubclass(each, BaseException) for each in self.counts
        ):
            raise BreakerError("breaker: counts must be one or more exception classes")

    def __repr__(self) -> str:
        return f"<Breaker {self.name!r}>"

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function answers; raises CircuitOpen, and calls nothing, while it is open."""
        with self:
            return function(*args, **kwargs)

    def __enter__(self) -> Self:
        self._admit(breakers.enter(self.name, self.probe_for))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._report(self._leave(), error)

    async def __aenter__(self) -> Self:
        self._admit(await breakers.aside(lambda: breakers.enter(self.name, self.probe_for)))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        held = self._leave()
        await breakers.aside(lambda: self._report(held, error))

    def _admit(self, found: Pass) -> None:
        if not found.may_call:
            raise CircuitOpen(self.name, self._delay(found))
        _held.set((*_held.get(), (self, found)))

    def _leave(self) -> Pass:
        """The pass of the innermost block of this breaker here."""
        held = _held.get()
        for place in range(len(held) - 1, -1, -1):
            if held[place][0] is self:
                _held.set(held[:place] + held[place + 1 :])
                return held[place][1]
        return Pass(may_call=True)  # entered in another context: it is left as nobody's probe

    def _report(self, held: Pass, error: BaseException | None) -> None:
        verdict = self._judge(error)
        if verdict is None:
            breakers.give_back(self.name, held)
        elif verdict:
            breakers.succeed(self.name, held)
        else:
            text = f"{type(error).__qualname__}: {error}"
            breakers.fail(self.name, held, self.threshold, self.open_for, text)

    def _judge(self, error: BaseException | None) -> bool | None:
        """Whether the service is well; None where the end of the block does not tell."""
        if isinstance(error, NotHappened) and error.__cause__ is not None:
            error = error.__cause__
        if error is None:
            return True
        if isinstance(error, Steer):
            named = tuple(each for each in self.counts if issubclass(each, Steer))
            return False if isinstance(error, named) else None
        if isinstance(error, self.counts):
            return False
        return True if isinstance(error, Exception) else None

    def _delay(self, found: Pass) -> float:
        spread = random.uniform(0.0, min(_SPREAD_LIMIT, self.open_for * _SPREAD_SHARE))
        wait = min(found.wait, PROBE_WAIT) if found.is_probed else found.wait
        return max(0.0, wait) + spread


def _duration(name: str, value: Any) -> float:
    try:
        found = math.nan if isinstance(value, bool | str) else seconds(value)
    except (TypeError, ValueError):
        found = math.nan
    if not 0 < found <= _LONGEST:
        raise BreakerError(f"breaker: {name} must lie above 0 and within a day, got {value!r}")
    return found
