"""The wire: pushes are sent to Redis without waiting for the answers, which are read later.

What is pushed is a hint that the reconciler repeats if it gets lost, so a request need not wait
for Redis to confirm it. Each thread has a wire of its own; a thread that ends leaves the
connection to the next one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from jobs.engine import clients
from jobs.engine.outage import briefly, outage

log = logging.getLogger("jobs.intake")

Answered = Callable[[Any], None]
_LOOK_EVERY = 16
"""Asking whether an answer has come costs as much as sending."""
_UNREAD_LIMIT = 64
_SPARE_LIMIT = 32
"""Connections that are kept of threads that have ended."""


@dataclass(slots=True)
class _Line:
    """A connection, and what is known of its server."""

    connection: Any
    outage: int
    known: dict[str, str] = field(default_factory=dict)
    """Scripts that the server has, and their marks."""
    unread: deque[Answered] = field(default_factory=deque)
    """Who is called with the answers that have not been read yet, in their order."""

    def cut(self) -> None:
        with suppress(*clients.Unavailable):
            self.connection.disconnect()


_spare: deque[_Line] = deque(maxlen=_SPARE_LIMIT)


def _connect() -> None:
    pool = clients.push_client().connection_pool
    connection = pool.connection_class(**pool.connection_kwargs)
    connection.connect()
    _spare.append(_Line(connection, outage.number))


class Wire:
    """One connection at a time, and the answers that have not been read from it yet."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._line: _Line | None = None

    def run(
        self, script: str, keys: Sequence[str], arguments: Sequence[str | int], answered: Answered
    ) -> None:
        """Send the script; ``answered`` is called with its answer once somebody looks."""

        def send(line: _Line, until: float) -> None:
            if len(line.unread) >= _LOOK_EVERY:
                _look(line, until, wait=len(line.unread) >= _UNREAD_LIMIT)
            mark = line.known.get(script) or _load(line, script, until)
            packed = line.connection.pack_command("EVALSHA", mark, len(keys), *keys, *arguments)
            line.connection.send_packed_command(packed)
            line.unread.append(answered)

        self._do(send)

    def ask(self, *command: str | int) -> Any:
        """Return the answer to a command."""

        def ask(line: _Line, until: float) -> Any:
            _look(line, until, wait=True)
            line.connection.send_packed_command(line.connection.pack_command(*command))
            return _answer(line, until)

        return self._do(ask)

    def look(self, *, wait: bool = False) -> None:
        """Read the answers that have arrived; with ``wait``, all that are outstanding."""
        if self._line is not None:
            _look(self._line, time.monotonic() + clients.PUSH_TIMEOUT, wait=wait)

    def cut(self) -> None:
        """Connect again at the next call; the answers that were outstanding will not come."""
        if self._line is not None:
            self._line.cut()
            self._line = None

    def _do(self, act: Callable[[_Line, float], Any]) -> Any:
        """Return what ``act`` does; all of its waits together end after ``PUSH_TIMEOUT``."""
        outage.check()
        until = time.monotonic() + clients.PUSH_TIMEOUT
        while True:
            line = self._line
            if line is not None and line.outage != outage.number:
                self.cut()
                line = None
            is_new = line is None
            try:
                if line is None:
                    line = self._line = _line(until)
                return act(line, until)
            except clients.Refused:
                raise
            except clients.Unavailable as error:
                self.cut()
                # An old connection may have been closed while nobody used it.
                if is_new or isinstance(error, clients.TimedOut):
                    outage.begin(error)
                    raise

    def __del__(self, spare: deque[_Line] = _spare, getpid: Callable[[], int] = os.getpid) -> None:
        # Its thread has ended, or the interpreter is ending and has lost its modules. A fork's copy
        # belongs to the parent.
        if self._line is not None and self._pid == getpid():
            spare.append(self._line)


def _line(until: float) -> _Line:
    """Return a connected line: of a thread that has ended, or a new one."""
    while True:
        with suppress(IndexError):
            line = _spare.pop()
            if line.outage == outage.number:
                return line
            line.cut()
            continue
        # Where another thread is quicker to take what was connected, there is one more to come.
        briefly(_connect, max(0.0, until - time.monotonic()))


def _look(line: _Line, until: float, *, wait: bool) -> None:
    while line.unread and (wait or line.connection.can_read(timeout=0)):
        try:
            answer = _answer(line, until)
        except clients.Refused as error:
            # A script that Redis has forgotten is sent again the next time.
            line.known.clear()
            log.warning("a push was refused, the dispatcher will repeat it: %s", error)
            line.unread.popleft()
        else:
            line.unread.popleft()(answer)


def _answer(line: _Line, until: float) -> Any:
    if not line.connection.can_read(timeout=max(0.0, until - time.monotonic())):
        raise TimeoutError("no answer in time")
    return line.connection.read_response()


def _load(line: _Line, script: str, until: float) -> str:
    _look(line, until, wait=True)
    line.connection.send_packed_command(line.connection.pack_command("SCRIPT", "LOAD", script))
    answer = _answer(line, until)
    line.known[script] = answer.decode() if isinstance(answer, bytes) else str(answer)
    return line.known[script]


_local = threading.local()


def wire() -> Wire:
    """Return this thread's wire; a forked process starts with a new one."""
    if getattr(_local, "pid", None) != os.getpid():
        _local.wire, _local.pid = Wire(), os.getpid()
    found: Wire = _local.wire
    return found


def forget() -> None:
    """Connect as the settings say by then, at the next call of any thread that begins later."""
    if "wire" in _local.__dict__:
        _local.wire.cut()
    _local.__dict__.clear()
    _spare.clear()


with suppress(AttributeError):
    os.register_at_fork(after_in_child=_spare.clear)
