"""Callbacks for the moment when a handler is asked to stop: one thread asks for all of them."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable

log = logging.getLogger("jobs.handler")

LOOK_INTERVAL = 0.05
Peek = Callable[[], str]
Callback = Callable[[str], object]


class Watch:
    """Calls each callback once, with the reason, as soon as its signal has one."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Peek, Callback]] = {}
        self._numbers = itertools.count()
        self._some = threading.Event()
        threading.Thread(target=self._live, daemon=True, name="watch").start()

    def add(self, peek: Peek, callback: Callback) -> int:
        """The callback will be called; answers the number by which to take it back."""
        number = next(self._numbers)
        self._waiting[number] = (peek, callback)
        self._some.set()
        return number

    def remove(self, number: int) -> None:
        """The callback will not be called any more."""
        self._waiting.pop(number, None)

    def _live(self) -> None:
        while True:
            self._some.wait()
            for number, (peek, callback) in list(self._waiting.items()):
                reason = peek()
                if reason and number in self._waiting:
                    self.remove(number)
                    try:
                        callback(reason)
                    except BaseException:  # a checkpoint in it must not end the thread
                        log.exception("a callback for the stop of a handler failed")
            if not self._waiting:
                self._some.clear()
                if self._waiting:  # one came in between
                    self._some.set()
            threading.Event().wait(LOOK_INTERVAL)


_watch: tuple[int, Watch] | None = None
_lock = threading.Lock()


def watch() -> Watch:
    """This process's watch: threads do not survive a fork."""
    global _watch
    with _lock:
        if _watch is None or _watch[0] != os.getpid():
            _watch = (os.getpid(), Watch())
        return _watch[1]
