"""Duties that a process does one after another, and again and again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import Error

from jobs.engine import rq, sql
from jobs.engine.outage import outage
from jobs.engine.seldom import Seldom

T = TypeVar("T")

_FIRST, _LONGEST = 0.5, 30.0
"""Seconds after which a duty that has failed is tried again: doubled each time."""


class Duties:
    """Do each duty apart from the others: one that fails is logged and tried again later.

    What concerns all of them is raised: at once where the database is away, and by ``end`` where
    Redis is, since most duties need none.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._seldom = Seldom(log)
        self._done_at: dict[str, float] = {}
        self._fails: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._away: Exception | None = None

    def every(self, interval: float, name: str, duty: Callable[[], object]) -> None:
        """Do the duty unless it was done less than ``interval`` seconds ago."""
        moment = time.monotonic()
        if moment - self._done_at.get(name, 0.0) >= interval:
            self._done_at[name] = moment
            self.do(name, duty)

    def every_with_redis(self, interval: float, name: str, duty: Callable[[], object]) -> None:
        """Do the duty likewise, but not while Redis is known to be away."""
        if not self._is_away():
            self.every(interval, name, duty)

    def do_with_redis(self, name: str, duty: Callable[[], T]) -> T | None:
        """Do the duty unless Redis is known to be away."""
        return None if self._is_away() else self.do(name, duty)

    def do(self, name: str, duty: Callable[[], T]) -> T | None:
        """Return what the duty answers; None where it failed or is not to be tried yet."""
        if time.monotonic() < self._not_before.get(name, 0.0):
            return None
        try:
            answer = duty()
        except rq.Unavailable as error:
            outage.begin(error)
            self._away = error
            return None
        except Exception as error:
            if isinstance(error, Error) and sql.is_disconnected(error):
                raise
            self._note_failure(name, error)
            return None
        self._fails.pop(name, None)
        return answer

    @property
    def lacks_redis(self) -> bool:
        """Whether a duty could not reach Redis since ``end`` was called last."""
        return self._away is not None

    def end(self) -> None:
        """Raise what kept a duty from reaching Redis since the last call."""
        away, self._away = self._away, None
        if away is not None:
            raise away

    def _is_away(self) -> bool:
        try:
            outage.check()
        except rq.Unavailable as error:
            self._away = error
            return True
        return False

    def _note_failure(self, name: str, error: Exception) -> None:
        fails = self._fails[name] = self._fails.get(name, 0) + 1
        pause = min(_LONGEST, _FIRST * 2.0 ** min(fails - 1, 10))
        self._not_before[name] = time.monotonic() + pause
        self._seldom.failure(name, error, "duty %r failed and will be tried again", name)
