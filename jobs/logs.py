"""Logs: lines that say of which job they are, and tell no secrets.

Plain logging of the standard library: a filter that adds what is bound to the running job or
request, and two formatters, JSON and console, that redact whatever they write. Nothing here asks
the database.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from jobs import redaction
from jobs.names import label_problem

FIELDS = ("job_id", "kind", "queue", "attempt", "tenant", "request_id", "user_id")
"""What may be bound; handlers have all but the user."""
LINES_LIMIT = 200
"""So many of the last lines of a failed attempt are kept."""
LINE_LIMIT = 1000
"""A kept line ends after so many characters."""
_LONGEST = 10_000
_bound: ContextVar[Mapping[str, str | int]] = ContextVar("jobs_bound", default=MappingProxyType({}))
_OWN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "taskName",
}


def bound() -> Mapping[str, str | int]:
    """What is bound here."""
    return _bound.get()


@contextmanager
def binding(**fields: str | int | None) -> Iterator[None]:
    """Inside of the block every line has these fields, and those bound before; None and ''
    leave a field out. Raises ValueError for a name that is not one of ``FIELDS``.
    """
    if strange := sorted(set(fields) - set(FIELDS)):
        raise ValueError(f"cannot bind {', '.join(strange)}; there are {', '.join(FIELDS)}")
    kept = {name: value for name, value in fields.items() if value is not None and value != ""}
    outer = {name: value for name, value in _bound.get().items() if name not in fields}
    token = _bound.set({**outer, **kept})
    try:
        yield
    finally:
        _bound.reset(token)


def request_id() -> str:
    """The bound request id, where a job may carry it; otherwise nothing."""
    found = str(_bound.get().get("request_id", ""))
    return "" if not found or label_problem(found, 200) else found


class BindingFilter(logging.Filter):
    """Gives every record what is bound where it was made; for handlers with other formatters."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name in FIELDS:
            if not hasattr(record, name):
                setattr(record, name, _bound.get().get(name, ""))
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, what is bound, and extras."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_told(record), ensure_ascii=False, default=str)


class ConsoleFormatter(logging.Formatter):
    """A line for people: time, level, logger, message, then ``name=value`` of what is bound."""

    def format(self, record: logging.LogRecord) -> str:
        told = _told(record)
        head = [told.pop(name) for name in ("time", "level", "logger", "message")]
        trace = told.pop("exception", "")
        pairs = [f"{name}={value}" for name, value in told.items()]
        line = " ".join(map(str, [*head, *pairs]))
        return f"{line}\n{trace}" if trace else line


def _told(record: logging.LogRecord) -> dict[str, Any]:
    try:
        text = record.getMessage()
    except Exception:
        text = str(record.msg)
    told: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname,
        "logger": record.name,
        "message": redaction.redact_text(text),
    }
    given = {name: value for name, value in vars(record).items() if name not in _OWN}
    fields: dict[str, Any] = {**_bound.get(), **given}
    # A name that is ours is the formatter's to give.
    extras = {name: value for name, value in fields.items() if name not in told and value != ""}
    told |= redaction.redact(extras)
    if record.exc_info and record.exc_info[0] is not None:
        trace = logging.Formatter().formatException(record.exc_info)
        told["exception"] = redaction.redact_text(trace, multiline=True)
    elif record.exc_text:
        told["exception"] = redaction.redact_text(record.exc_text, multiline=True)
    return told


class AttemptLog(logging.LoggerAdapter[logging.Logger]):
    """The log of a running attempt; it remembers its last lines for the case that it fails."""

    def __init__(self, logger: logging.Logger, extra: Mapping[str, object]) -> None:
        super().__init__(logger, extra)
        self._lines: deque[tuple[float, int, str]] = deque(maxlen=LINES_LIMIT)

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """The line goes to the logger, and from INFO on is remembered whatever the logger does."""
        if level >= logging.INFO or self.isEnabledFor(level):
            self._lines.append((time.time(), level, _text(msg, args)))
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        super().log(level, msg, *args, **kwargs)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs

    def lines(self) -> list[str]:
        """The remembered lines, redacted, oldest first: time, level and message."""
        return [
            f"{datetime.fromtimestamp(moment, UTC).isoformat(timespec='milliseconds')} "
            f"{logging.getLevelName(level)} {redaction.redact_text(text)}"[:LINE_LIMIT]
            for moment, level, text in list(self._lines)
        ]


def _text(msg: object, args: tuple[object, ...]) -> str:
    try:
        record = logging.LogRecord("", 0, "", 0, msg, args, None)
        return record.getMessage()[:_LONGEST]
    except Exception:
        return "(a line that cannot be shown)"
