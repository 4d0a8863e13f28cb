"""The words of the ledger of effects: what was intended, and what a probe may answer about it.

An effect is one action on the world outside that no rollback takes back: a mail, a post, an
order. ``ctx.effect(key, call)`` writes down the intent, makes the call, writes down the outcome.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from jobs import lazy
from jobs.outcomes import CircuitOpen as CircuitOpen
from jobs.outcomes import InDoubt as InDoubt

if TYPE_CHECKING:
    from jobs.operate.doubts import open_doubts as open_doubts
    from jobs.operate.doubts import resolve as resolve
    from jobs.operate.doubts import resolve_doubt as resolve_doubt
else:
    __getattr__ = lazy.exports("jobs.effects", "jobs.operate.doubts")


@dataclass(frozen=True, slots=True)
class Intent:
    """An effect that was intended and whose outcome nobody wrote down."""

    id: int
    key: str
    request: Any
    """What the attempt that intended it gave as ``request``."""
    attempt: int
    intended_at: datetime
    note: str
    """What is known of it: the error that its call raised, or nothing."""


@dataclass(frozen=True, slots=True)
class Happened:
    """A probe's answer: it has happened, with this outcome."""

    outcome: Any = None


class NotHappened(Exception):
    """It has not happened and will not: answered by a probe, or raised by the call itself."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A probe's answer: there is no telling, for this reason."""

    why: str = ""


Answer = Happened | NotHappened | Unknown | type[NotHappened] | type[Unknown]
OnDoubt = Literal["park", "rerun"]
Call = Callable[[], Any]
"""Makes the effect happen and answers its outcome, a JSON value."""
AsyncCall = Callable[[], Any | Awaitable[Any]]
Probe = Callable[[Intent], Answer]
"""Finds out whether an intended effect has happened."""
AsyncProbe = Callable[[Intent], Answer | Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Terms:
    """What ``ctx.effect`` is given besides key, call and probe."""

    request: Any = None
    definite: tuple[type[BaseException], ...] = ()
    on_doubt: OnDoubt = "park"
