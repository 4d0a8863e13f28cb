"""Statements of the engine inside of a handler: they wait for the database, the handler does not
fail because of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from django.db import Error

from jobs.context import Signal
from jobs.engine import sql
from jobs.engine.seldom import Seldom, line
from jobs.outcomes import DatabaseLost

log = logging.getLogger("jobs.steady")
T = TypeVar("T")

_FIRST, _LONGEST = 0.05, 1.0
"""Seconds between two tries: doubled each time."""
_LOOK = 0.05
_seldom = Seldom(log)


def steadily(write: Callable[[], T], signal: Signal) -> T:
    """Return the write's answer, repeated until the database takes it or the attempt has to end.

    Raises DatabaseLost in the latter case, and at once what says that a value was refused. The
    write must do no harm when an earlier try was committed and only the answer was lost.
    """
    pause = _FIRST
    while True:
        try:
            return sql.repeating(write)
        except Error as error:
            if sql.is_refusal(error) or sql.connection().in_atomic_block:
                raise
            _seldom.failure("wait", error, "a handler waits for the database")
            with suppress(Error):
                sql.close()
            if signal.aborted:
                raise DatabaseLost(line(error)) from error
            _sleep(pause, signal)
            pause = min(_LONGEST, pause * 2)


def _sleep(seconds: float, signal: Signal) -> None:
    end = time.monotonic() + seconds
    while not signal.aborted and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _LOOK))
