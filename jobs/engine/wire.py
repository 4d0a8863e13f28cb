"""The wire: pushes are sent to Redis without waiting for the answers, which are read later.

What is pushed is a hint that the reconciler repeats if it gets lost, so a request need not wait
for Redis to confirm it. Each thread has a wire of its own.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from jobs.engine import rq

log = logging.getLogger("jobs.intake")

Answered = Callable[[Any], None]
_LOOK_EVERY = 16
"""Asking whether an answer has come costs as much as sending."""
_UNREAD_LIMIT = 64


class Wire:
    """One connection, and the answers that have not been read from it yet."""

    def __init__(self) -> None:
        self._pool = rq.push_client().connection_pool
        self._connection: Any = self._pool.get_connection()
        self._known: dict[str, str] = {}
        self._unread: deque[Answered] = deque()

    def run(
        self, script: str, keys: Sequence[str], arguments: Sequence[str | int], answered: Answered
    ) -> None:
        """The script will run; ``answered`` is called with its answer, once somebody looks."""
        try:
            if len(self._unread) >= _LOOK_EVERY:
                self.look(wait=len(self._unread) >= _UNREAD_LIMIT)
            mark = self._known.get(script) or self._load(script)
            packed = self._connection.pack_command("EVALSHA", mark, len(keys), *keys, *arguments)
            self._connection.send_packed_command(packed)
        except rq.Unavailable:
            self.cut()
            raise
        self._unread.append(answered)

    def look(self, *, wait: bool = False) -> None:
        """The answers that have arrived are read; with ``wait``, all that are outstanding."""
        while self._unread and (wait or self._connection.can_read(timeout=0)):
            try:
                answer = self._connection.read_response()
            except rq.Refused as error:
                # A script that Redis has forgotten is sent anew the next time.
                self._known.clear()
                log.warning("a push was refused, the dispatcher will repeat it: %s", error)
                self._unread.popleft()
            else:
                self._unread.popleft()(answer)

    def cut(self) -> None:
        """The next call connects anew; the answers that were outstanding will not come."""
        self._unread.clear()
        self._known.clear()
        with suppress(*rq.Unavailable):
            self._connection.disconnect()

    def __del__(self) -> None:
        # Its thread has ended; a server that begins a thread per request must not run out.
        with suppress(Exception):
            self.cut()
            self._pool.release(self._connection)

    def _load(self, script: str) -> str:
        self.look(wait=True)
        self._connection.send_packed_command(
            self._connection.pack_command("SCRIPT", "LOAD", script)
        )
        answer = self._connection.read_response()
        self._known[script] = answer.decode() if isinstance(answer, bytes) else str(answer)
        return self._known[script]


_local = threading.local()


def wire() -> Wire:
    """This thread's wire; a forked process starts with a new one."""
    if getattr(_local, "pid", None) != os.getpid():
        _local.wire, _local.pid = Wire(), os.getpid()
    found: Wire = _local.wire
    return found


def forget() -> None:
    """The next call of this thread connects as the settings say by then."""
    _local.__dict__.clear()
