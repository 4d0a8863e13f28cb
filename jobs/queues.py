"""Queues that apps declare, with limits of their own."""

from __future__ import annotations

from jobs import conf
from jobs.errors import HandlerError
from jobs.limits import Limit, Rate
from jobs.names import name_problem

_declared: dict[str, Limit] = {}


def queue(
    name: str,
    *,
    at_once: int | None = None,
    rate: str | Rate | None = None,
    burst: float | None = None,
) -> str:
    """Declare the limits of a queue, in a ``handlers`` module, and return its name.

    They hold for all jobs of the queue, over the whole fleet. ``JOBS["QUEUES"]`` overrides them.
    """
    if problem := name_problem(name):
        raise HandlerError(f"queue {problem}")
    limit = Limit(at_once, rate, burst)
    known = _declared.setdefault(name, limit)
    if known != limit:
        raise HandlerError(f"queue {name!r} has been declared with other limits")
    return name


def limit(name: str) -> Limit | None:
    """Return the limit of a queue, if it has one."""
    return conf.settings().QUEUES.get(name) or _declared.get(name)


def limits() -> dict[str, Limit]:
    """Return the limits of queues, by name: what apps declare, and what the project says."""
    return {**_declared, **conf.settings().QUEUES}


def forget(name: str) -> None:
    """Drop the declaration of a queue (for tests)."""
    _declared.pop(name, None)
