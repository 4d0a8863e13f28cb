"""How long things stay that have ended: for a time, the last N of them, or both.

::

    @jobs.handler(SendEmail, keep_failed=jobs.retention.Keep(timedelta(days=7), last=10_000))

    @jobs.retention.sweeper("emails")                # rows of the app that go in the same sweep
    def old_emails(dry_run: bool, chunk: int) -> Iterator[Mapping[str, int]]: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from jobs.errors import HandlerError
from jobs.names import name_problem


@dataclass(frozen=True, slots=True)
class Keep:
    """What has ended stays while it is younger than ``time`` and among the ``last`` N.

    What is left out is no condition; raises HandlerError where both are.
    """

    time: timedelta | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        is_time = isinstance(self.time, timedelta) and self.time >= timedelta(0)
        is_count = isinstance(self.last, int) and not isinstance(self.last, bool) and self.last >= 0
        if (self.time is None and self.last is None) or not (
            (self.time is None or is_time) and (self.last is None or is_count)
        ):
            raise HandlerError(f"{self!r} must have a timedelta, a whole number, or both")


Kept = timedelta | int | Keep
"""How a handler says it: so long, the last N, or both by a Keep."""


def parse(name: str, value: Kept | None) -> Keep | None:
    """The rule of that name; raises HandlerError."""
    if value is None or isinstance(value, Keep):
        return value
    try:
        return Keep(time=value) if isinstance(value, timedelta) else Keep(last=value)
    except HandlerError:
        raise HandlerError(
            f"handler: {name} must be a timedelta, a whole number of jobs or a "
            f"jobs.retention.Keep, got {value!r}"
        ) from None


Sweep = Callable[[bool, int], Iterable[Mapping[str, int]]]
S = TypeVar("S", bound=Sweep)
_sweepers: dict[str, Sweep] = {}


def sweeper(name: str) -> Callable[[S], S]:
    """The decorated function is a part of every sweep of retention, under this name.

    It takes ``(dry_run, chunk)`` and answers, after each short transaction of its own that takes
    at most ``chunk`` rows away, how many of what they were; with ``dry_run`` it only counts. It
    may run anywhere twice, and is to be found in an app's ``handlers`` module.
    """
    if problem := name_problem(name):
        raise HandlerError(f"sweeper: name {problem}")

    def register(function: S) -> S:
        known = _sweepers.setdefault(name, function)
        if (known.__module__, known.__qualname__) != (function.__module__, function.__qualname__):
            raise HandlerError(f"sweeper {name!r} is {known.__module__}.{known.__qualname__}")
        _sweepers[name] = function  # reloading a module registers the same function once more
        return function

    return register


def sweepers() -> dict[str, Sweep]:
    """Every registered one by its name."""
    return dict(sorted(_sweepers.items()))


def forget_sweeper(name: str) -> None:
    """It is unknown again (for tests)."""
    del _sweepers[name]
