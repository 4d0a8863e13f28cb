"""Callbacks of apps for jobs that came to an end without success, however they ended.

::

    @jobs.ended(SendEmail)
    def close(ended: jobs.types.Ended) -> None:
        Outbox.objects.filter(pk=ended.id, status="open").update(status=ended.state)

A handler knows how its own attempt ends. It does not see that its job expired while it waited,
was cancelled, or was given up after crashes, timeouts or a payload that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from jobs.errors import HandlerError
from jobs.payloads import Payload
from jobs.states import JobState


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that is failed, cancelled or expired."""

    id: UUID
    kind: str
    tenant: str
    state: JobState
    reason: str
    """Why it failed, as its row says it: ``exhausted``, ``timeout``, ``in_doubt``…"""
    in_doubt: bool
    """Whether one of its effects may or may not have happened."""
    effects: Mapping[str, str] = field(default_factory=dict)
    """The state of each of its effects: ``done``, ``failed`` (it did not happen), ``in_doubt`` or
    ``intent`` (in doubt as well, and nobody has asked yet)."""


Listener = Callable[[Ended], object]
L = TypeVar("L", bound=Listener)
_listeners: dict[str, Listener] = {}


def ended(payload: type[Payload]) -> Callable[[L], L]:
    """The decorated function is called for every job of the kind that ends without success.

    A dispatcher calls it about a second later, in a transaction of its own, at least once: what
    it writes has to bear repetition. It belongs into an app's ``handlers`` module.
    """
    if not (isinstance(payload, type) and issubclass(payload, Payload) and payload.kind):
        raise HandlerError(f"ended: must be given a jobs.Payload with a kind, got {payload!r}")

    def register(function: L) -> L:
        for name in (payload.kind, *payload.aliases):
            known: Any = _listeners.get(name, function)
            if (known.__module__, known.__qualname__) != (
                function.__module__,
                function.__qualname__,
            ):
                raise HandlerError(f"{known.__qualname__} handles the ends of {name!r} already")
            _listeners[name] = function
        return function

    return register


def listeners() -> dict[str, Listener]:
    """Who is told, by every name of a kind."""
    return dict(_listeners)


def forget(payload: type[Payload]) -> None:
    """No callback is called for this kind any more (for tests)."""
    for name in (payload.kind, *payload.aliases):
        _listeners.pop(name, None)
