"""Circuit breakers that all workers share.

::

    meta = jobs.breaker("meta:page:7", threshold=5, open_for=120)

    with meta:                              # in a handler, around the call of the service
        client.publish(post)
    answer = meta.call(client.publish, post)

After ``threshold`` failures in a row the circuit opens: nobody calls for ``open_for`` seconds, and
jobs that would are delayed without using an attempt. Then one of them calls as a probe; its success
closes the circuit for all and releases the jobs that wait, its failure opens it again and delays
its job like the others. Only outages count, unless ``counts`` says otherwise.
"""

from __future__ import annotations

import errno
import math
import random
import smtplib
import socket
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from jobs.backoff import Duration, seconds
from jobs.declaring import agree
from jobs.effects import NotHappened
from jobs.engine import breakers
from jobs.engine.breakers import Pass
from jobs.errors import BreakerError
from jobs.names import label_problem
from jobs.outcomes import CircuitOpen, Steer

P = ParamSpec("P")
T = TypeVar("T")
Exceptions = type[BaseException] | tuple[type[BaseException], ...]
Judge = Callable[[BaseException], bool | None]
"""Says of an exception whether the service is out of order; None where that is unknown."""

NAME_LIMIT = 200
_LONGEST = 86400.0
PROBE_WAIT = 5.0
"""Jobs that meet a circuit under probe come back after at most this many seconds."""
_SPREAD_SHARE, _SPREAD_LIMIT = 0.05, 5.0


_held: ContextVar[tuple[tuple[Breaker, Pass], ...]] = ContextVar("jobs_breakers", default=())
"""The passes of the blocks around the present moment, in this thread or coroutine."""


def breaker(
    name: str,
    threshold: int = 5,
    open_for: Duration = 60,
    *,
    counts: Exceptions | Judge | None = None,
    probe_for: Duration = 60,
    trips: Exceptions = (),
) -> Breaker:
    """Return the breaker of that name, for every caller.

    It opens after ``threshold`` failures in a row and lets a probe through after ``open_for``.
    Failures are outages as ``is_outage`` knows them, or exceptions of ``counts``: with classes, any
    other exception means that the service answered; a function says True (a failure), False (the
    service answered) or None (there is no telling). What steers a job (``Snooze``, ``RateLimited``
    …) says nothing unless ``counts`` names its class. A probe that is silent for ``probe_for`` is
    replaced by another. Exceptions of ``trips``, such as credentials that are refused, count and
    open the circuit at once. Modules that declare the same breaker must say the same threshold and
    times: raises BreakerError.
    """
    made = Breaker(name, threshold, open_for, counts, probe_for, trips)
    said = f"{threshold} failures, open for {made.open_for:g} s, probed for {made.probe_for:g} s"
    agree("breaker", name, said, BreakerError)
    return made


_AWAY = (502, 503, 504)
"""Answers by which a gateway or a service says that it is out of order."""
_GONE = (
    *(ConnectionError, TimeoutError, socket.gaierror),
    *(smtplib.SMTPServerDisconnected, smtplib.SMTPConnectError),
)
_ERRNOS = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})


def is_outage(error: BaseException) -> bool | None:
    """Return whether the error says that a service is away, whatever was asked of it.

    True for a connection that was not made or broke, a name that is not found, silence, and the
    answers 502, 503 and 504, also as the ``__cause__`` of another error; False for any other answer
    by HTTP; None for everything else, which may be the fault of one request or of this program.
    """
    from jobs.http import HTTPStatusError, TooLarge, TooSlow, Unreachable

    if isinstance(error, HTTPStatusError):
        return error.response.status_code in _AWAY
    if isinstance(error, TooLarge):
        return False
    if isinstance(error, (*_GONE, TooSlow, Unreachable)):
        return True
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return True
    return None if error.__cause__ is None else is_outage(error.__cause__)


class Breaker:
    """Use it as a context manager, sync or async, or through ``call``."""

    def __init__(
        self,
        name: str,
        threshold: int,
        open_for: Duration,
        counts: Exceptions | Judge | None,
        probe_for: Duration,
        trips: Exceptions = (),
    ) -> None:
        if problem := label_problem(name, NAME_LIMIT) or ("" if name else "is empty"):
            raise BreakerError(f"breaker: name {problem}")
        if not isinstance(threshold, int) or isinstance(threshold, bool) or threshold < 1:
            raise BreakerError(f"breaker: threshold must be a whole number above 0: {threshold!r}")
        self.name, self.threshold = name, threshold
        self.open_for = _duration("open_for", open_for)
        self.probe_for = _duration("probe_for", probe_for)
        self.trips = _classes("trips", trips)
        self.counts, self._judged_by = _counts(counts)

    def __repr__(self) -> str:
        return f"<Breaker {self.name!r}>"

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function answers; raises CircuitOpen, and calls nothing, while it is open."""
        with self:
            return function(*args, **kwargs)

    def raise_if_open(self, *, unless_due: bool = False) -> None:
        """Raise CircuitOpen unless the circuit is closed, or ``unless_due`` for its next probe.

        For handlers that would rather wait with the others than use an attempt for the failure
        that has just opened the circuit.
        """
        found = breakers.look(self.name)
        if not found.may_call and not (unless_due and not found.wait):
            raise CircuitOpen(self.name, self._delay(found))

    def __enter__(self) -> Self:
        _enter((self,))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._report(self._leave(), error)

    async def __aenter__(self) -> Self:
        await _enter_async((self,))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        held = self._leave()
        await breakers.aside(lambda: self._report(held, error))

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
            threshold = 1 if isinstance(error, self.trips) else self.threshold
            if breakers.fail(self.name, held, threshold, self.open_for, text) and error is not None:
                # Others probe before this one does so again: it may be what breaks the service.
                breakers.blame(error, CircuitOpen(self.name, self.open_for + self._spread))

    def _judge(self, error: BaseException | None) -> bool | None:
        """Whether the service is well; None where the end of the block does not tell."""
        if isinstance(error, NotHappened) and error.__cause__ is not None:
            error = error.__cause__
        if error is None:
            return True
        classes = (*self.counts, *self.trips)
        if isinstance(error, Steer):
            named = tuple(each for each in classes if issubclass(each, Steer))
            return False if isinstance(error, named) else None
        if isinstance(error, classes):
            return False
        if not isinstance(error, Exception):
            return None
        if self._judged_by is None:
            return True
        is_failure = self._judged_by(error)
        return None if is_failure is None else not is_failure

    @property
    def _spread(self) -> float:
        return min(_SPREAD_LIMIT, self.open_for * _SPREAD_SHARE)

    def _delay(self, found: Pass) -> float:
        spread = random.uniform(0.0, self._spread)
        wait = min(found.wait, PROBE_WAIT) if found.is_probed else found.wait
        return max(0.0, wait) + spread


class Together:
    """Several breakers around one block: see ``together``."""

    def __init__(self, members: tuple[Breaker, ...]) -> None:
        if len({member.name for member in members}) < max(1, len(members)):
            raise BreakerError("together: needs one or more breakers of different names")
        self._members = members

    def __enter__(self) -> Self:
        _enter(self._members)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in reversed(self._members):
            member._report(member._leave(), error)

    async def __aenter__(self) -> Self:
        await _enter_async(self._members)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        held = [(member, member._leave()) for member in reversed(self._members)]

        def report() -> None:
            for member, each in held:
                member._report(each, error)

        await breakers.aside(report)


def together(*members: Breaker) -> Together:
    """Return a block that calls only if each of these breakers lets it, asked by one statement.

    It is like ``with a, b:``, and costs one round trip to the database instead of one for each.
    """
    return Together(members)


def _enter(members: tuple[Breaker, ...]) -> None:
    _admit(members, breakers.enter({each.name: each.probe_for for each in members}))


async def _enter_async(members: tuple[Breaker, ...]) -> None:
    lasting = {each.name: each.probe_for for each in members}
    _admit(members, await breakers.aside(lambda: breakers.enter(lasting)))


def _admit(members: tuple[Breaker, ...], passes: dict[str, Pass]) -> None:
    if refusing := [each for each in members if not passes[each.name].may_call]:
        longest = max(refusing, key=lambda each: passes[each.name].wait)
        raise CircuitOpen(longest.name, longest._delay(passes[longest.name]))
    _held.set((*_held.get(), *((each, passes[each.name]) for each in members)))


def _counts(given: Any) -> tuple[tuple[type[BaseException], ...], Judge | None]:
    """The classes that count, or who judges instead."""
    if given is None:
        return (), is_outage
    if callable(given) and not isinstance(given, type):
        return (), given
    found = _classes("counts", given)
    if not found:
        raise BreakerError("breaker: counts must be one or more exception classes")
    return found, None


def _classes(name: str, given: Any) -> tuple[type[BaseException], ...]:
    found = given if isinstance(given, tuple) else (given,)
    if not all(isinstance(each, type) and issubclass(each, BaseException) for each in found):
        raise BreakerError(f"breaker: {name} must be one or more exception classes")
    return found


def _duration(name: str, value: Any) -> float:
    try:
        found = math.nan if isinstance(value, bool | str) else seconds(value)
    except (TypeError, ValueError):
        found = math.nan
    if not 0 < found <= _LONGEST:
        raise BreakerError(f"breaker: {name} must lie above 0 and within a day, got {value!r}")
    return found
