"""A short memory of Redis being away, one for all threads of a process.

A job is a row in PostgreSQL, and a dispatcher finds it without any hint from Redis. So whoever
only has a hint to give does not wait for a Redis that did not answer a moment ago: the first to
notice waits for ``clients.PUSH_TIMEOUT``, everybody after it fails at once. Meanwhile one thread
at a time, which nobody waits for, tries whether Redis is back.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from jobs.engine import clients

log = logging.getLogger("jobs.redis")
T = TypeVar("T")

PAUSE = 1.0
"""Seconds between two tries while Redis is away: what a recovery may go unnoticed for. A try costs
one connection and no request's time, so it may be made often."""


class Outage:
    """Whether Redis is away, as far as this process knows."""

    def __init__(self) -> None:
        self.number = 0
        """Grows with each outage: connections that are older may be dead."""
        self.forget()

    def forget(self) -> None:
        """Know of no outage (in a forked process, or after a change of settings)."""
        self._lock = threading.Lock()
        self._since: float | None = None
        self._try_at = 0.0
        self._why = ""

    @property
    def is_on(self) -> bool:
        return self._since is not None

    def check(self) -> None:
        """Raise StillAway while Redis is away; have somebody try it when the time has come."""
        if self._since is None:
            return
        with self._lock:
            is_due = time.monotonic() >= self._try_at
            if is_due:
                self._try_at = float("inf")  # until this try has ended
        if is_due:
            _start(self._try)
        raise clients.StillAway(f"Redis is away: {self._why}")

    def begin(self, error: BaseException) -> None:
        """Note that Redis did not answer. An error by which it has answered is no outage."""
        if isinstance(error, clients.Refused | clients.StillAway):
            return
        with self._lock:
            self._why = str(error) or type(error).__name__
            if self._since is not None:
                return
            self._since = time.monotonic()
            self._try_at = self._since + PAUSE
            self.number += 1
        log.warning("Redis is away: %s", self._why)

    def end(self) -> None:
        """Note that Redis has answered."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.info("Redis is back after %.1f s", time.monotonic() - since)

    def _try(self) -> None:
        try:
            client = clients.client()
            # Those that are idle may have been broken by the outage.
            client.connection_pool.disconnect(inuse_connections=False)
            client.ping()
        except clients.Refused:
            self.end()
        except Exception as error:
            self._why = str(error) or type(error).__name__
            self._try_at = time.monotonic() + PAUSE
        else:
            self.end()


outage = Outage()


def briefly(act: Callable[[], T], seconds: float = clients.PUSH_TIMEOUT) -> T:
    """Return what ``act`` asks of Redis, or raise Unavailable after at most this many seconds.

    The bound holds for all of it: names to resolve, sentinels to ask, addresses to try. What is
    late goes on in its thread, and ends the outage if it succeeds.
    """
    outage.check()
    answers: SimpleQueue[tuple[T | None, Exception | None]] = SimpleQueue()

    def run() -> None:
        try:
            answer = act()
        except Exception as error:
            answers.put((None, error))
        else:
            answers.put((answer, None))
            outage.end()

    _start(run)
    try:
        answer, error = answers.get(timeout=seconds)
    except Empty:
        error = TimeoutError(f"no answer in {seconds:g} s")
    if error is None:
        return answer  # type: ignore[return-value]
    if isinstance(error, clients.Unavailable):
        outage.begin(error)
    raise error


def _start(act: Callable[[], None]) -> None:
    try:
        threading.Thread(target=act, daemon=True, name="redis").start()
    except RuntimeError:
        act()  # the interpreter is ending; what is asked of Redis is bounded anyhow


with suppress(AttributeError):
    os.register_at_fork(after_in_child=outage.forget)
