"""What a handler is given besides its payload."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from jobs.outcomes import Stopped


class Signal:
    """Whether, and why, the handler should stop: timeout, cancelled, preempted, shutdown or
    lease_lost."""

    __slots__ = ("_peek",)

    def __init__(self, peek: Callable[[], str]) -> None:
        self._peek = peek

    @property
    def aborted(self) -> bool:
        """Whether the handler has been told to stop."""
        return self._peek() != ""

    @property
    def reason(self) -> str:
        """Why it has been told to stop; empty while it has not."""
        return self._peek()

    def __bool__(self) -> bool:
        return self.aborted


class ProgressWriter(Protocol):
    """Stores a job's progress, if the attempt still holds the job."""

    def __call__(self, progress: dict[str, Any]) -> bool: ...


PROGRESS_INTERVAL = 0.5
"""Seconds between two writes of a job's progress; the last one is always written."""


@dataclass(slots=True)
class Context:
    """The running attempt, as its handler sees it."""

    job_id: UUID
    kind: str
    queue: str
    attempt: int
    """Number of this attempt, from 1; retries, snoozes and releases all count."""
    failures: int
    """How often the job has failed before."""
    max_attempts: int
    tenant: str
    correlation_id: str
    priority: int
    signal: Signal
    log: logging.LoggerAdapter[logging.Logger]
    _write_progress: ProgressWriter
    _progress_at: float = 0.0

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure of this attempt would be final."""
        return self.failures + 1 >= self.max_attempts

    def should_stop(self) -> bool:
        """Whether the handler has been told to stop; for loops that clean up by themselves."""
        return self.signal.aborted

    def checkpoint(self) -> None:
        """Returns at once, or ends the attempt here when it has been told to stop."""
        if reason := self.signal.reason:
            raise Stopped(reason)

    def progress(self, done: int, total: int | None = None, note: str = "") -> None:
        """Shows how far the job is; ends the attempt when it no longer holds the job."""
        moment = time.monotonic()
        if moment - self._progress_at < PROGRESS_INTERVAL and done != total:
            return
        self._progress_at = moment
        if not self._write_progress({"done": done, "total": total, "note": note[:200]}):
            raise Stopped("lease_lost")
