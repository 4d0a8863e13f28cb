"""Log lines about a cause that lasts: one at once, and then one a minute."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from django.db import Error

from jobs.engine import sql

INTERVAL = 60.0


class Seldom:
    """Log what lasts at most once a minute for each cause; any thread may ask."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._said_at: dict[str, float] = {}

    def warning(self, cause: str, message: str, *arguments: Any) -> None:
        """Log the message, unless one about the same cause was logged a short while ago."""
        if self._is_due(cause):
            self._log.warning(message, *arguments)

    def failure(self, cause: str, error: BaseException, message: str, *arguments: Any) -> None:
        """Log the error: in one line where the database is away, else with its traceback."""
        state = sql.sqlstate(error) if isinstance(error, Error) else ""
        if not self._is_due(f"{cause} {type(error).__name__} {state}"):
            return
        if state == UNDEFINED_TABLE:
            self._log.error(f"{message}: %s; run manage.py migrate", *arguments, line(error))
        elif isinstance(error, Error) and (state or sql.is_disconnected(error)):
            self._log.warning(f"{message}: %s", *arguments, line(error))
        else:
            self._log.error(message, *arguments, exc_info=error)

    def _is_due(self, cause: str) -> bool:
        moment = time.monotonic()
        with self._lock:
            if moment - self._said_at.get(cause, float("-inf")) < INTERVAL:
                return False
            if len(self._said_at) > 1000:
                self._said_at.clear()
            self._said_at[cause] = moment
            return True


UNDEFINED_TABLE = "42P01"


def line(error: BaseException) -> str:
    """Return what the error says, in one line."""
    return " ".join(str(error).split())
