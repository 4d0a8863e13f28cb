"""Whether anything was sent: what the ledger of effects learns from the calls of ``jobs.http``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """What the calls of a block have done."""

    sent: bool = False
    """Whether a byte of a request may have left."""


_watched: ContextVar[Traffic | None] = ContextVar("jobs_traffic", default=None)


def watched() -> Traffic | None:
    """Return the traffic of the block around this call."""
    return _watched.get()


@contextmanager
def watching() -> Iterator[Traffic]:
    """Watch the calls of the block, also those of coroutines that it starts."""
    traffic = Traffic()
    token = _watched.set(traffic)
    try:
        yield traffic
    finally:
        _watched.reset(token)


def was_unsent(error: BaseException | None, traffic: Traffic) -> bool:
    """Return whether a call failed before a byte of any request could leave.

    The error, or the one from which it was raised, says so of its own request (``HttpError.sent``,
    whose module few handlers need, and so is not imported here); the traffic says it of all.
    """
    while error is not None and not traffic.sent:
        if getattr(error, "sent", None) is False:
            return True
        error = error.__cause__
    return False
