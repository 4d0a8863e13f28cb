"""Logs: lines that say of which job they are, and tell no secrets.

One chain of structlog processors for every line, also those of plain logging: what is bound to the
running job or request is added, everything is redacted, and written as JSON or for people. Nothing
here asks the database.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import structlog
from django.conf import settings
from structlog.typing import Processor

from jobs import redaction
from jobs.names import label_problem
from jobs.redaction import RedactingFilter as RedactingFilter

FIELDS = ("job_id", "kind", "queue", "attempt", "tenant", "request_id", "user_id")
"""What may be bound; handlers have all but the user."""
LINES_LIMIT = 200
"""This many of the last lines of a failed attempt are kept."""
LINE_LIMIT = 1000
"""A kept line ends after this many characters."""
_LONGEST = 10_000
Fields = Mapping[str, str | int]
_NOTHING: Fields = MappingProxyType({})
# One variable and not one for each field: an attempt that logs nothing pays for one.
_bound: ContextVar[Fields | _Later] = ContextVar("jobs_bound", default=_NOTHING)
_OWN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "_trace",
    "message",
    "asctime",
    "taskName",
    "_logger",
    "_name",
}
_filter_by_level = structlog.stdlib.filter_by_level
_HEAD = ("time", "level", "logger", "message")
Event = MutableMapping[str, Any]


def bound() -> Fields:
    """What is bound here."""
    found = _bound.get()
    return found.fields() if isinstance(found, _Later) else found


class binding_later:
    """Like ``binding``, by a function that is called only if somebody asks what is bound: once, or
    where it is not ``is_fixed`` each time.
    """

    __slots__ = ("_is_fixed", "_make", "_token")

    def __init__(
        self, make: Callable[[], dict[str, str | int | None]], *, is_fixed: bool = True
    ) -> None:
        self._make, self._is_fixed = make, is_fixed

    def __enter__(self) -> None:
        self._token = _bound.set(_Later(_bound.get(), self._make, self._is_fixed))

    def __exit__(self, *_: object) -> None:
        _bound.reset(self._token)


class _Later:
    __slots__ = ("_fields", "_is_fixed", "_make", "_outer")

    def __init__(
        self,
        outer: Fields | _Later,
        make: Callable[[], dict[str, str | int | None]],
        is_fixed: bool,
    ) -> None:
        self._outer, self._make, self._is_fixed = outer, make, is_fixed
        self._fields: Fields | None = None

    def fields(self) -> Fields:
        if self._fields is not None:
            return self._fields
        outer = self._outer.fields() if isinstance(self._outer, _Later) else self._outer
        found = _merged(outer, self._make())
        if self._is_fixed:
            self._fields = found
        return found


def _merged(outer: Fields, fields: Mapping[str, str | int | None]) -> Fields:
    kept = {name: value for name, value in fields.items() if value is not None and value != ""}
    return {**{name: value for name, value in outer.items() if name not in fields}, **kept}


@contextmanager
def binding(**fields: str | int | None) -> Iterator[None]:
    """Inside of the block every line has these fields, and those bound before; None and ''
    leave a field out. Raises ValueError for a name that is not one of ``FIELDS``.
    """
    if strange := sorted(set(fields) - set(FIELDS)):
        raise ValueError(f"cannot bind {', '.join(strange)}; there are {', '.join(FIELDS)}")
    token = _bound.set(_merged(bound(), fields))
    try:
        yield
    finally:
        _bound.reset(token)


def request_id() -> str:
    """The bound request id, where a job may carry it; otherwise nothing."""
    found = str(bound().get("request_id", ""))
    return "" if not found or label_problem(found, 200) else found


class BindingFilter(logging.Filter):
    """Gives every record what is bound where it was made; for handlers with other formatters."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name in FIELDS:
            if not hasattr(record, name):
                setattr(record, name, bound().get(name, ""))
        return True


# ---- the chain


def _tell(_logger: Any, _method: str, event: Event) -> Event:
    """The line in our order: time, level, logger, message, what is bound, extras, exception."""
    record: logging.LogRecord = event.pop("_record")
    if not event.pop("_from_structlog"):
        event.update((name, value) for name, value in vars(record).items() if name not in _OWN)
    told: Event = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname,
        "logger": record.name,
        "message": event.pop("event", ""),
    }
    error = event.pop("exc_info", None) or record.exc_info
    trace = getattr(record, "_trace", "") or _trace(error)
    fields = {**structlog.contextvars.get_contextvars(), **bound(), **event}
    # A name that is ours is the formatter's to give.
    told.update({n: value for n, value in fields.items() if n not in told and value != ""})
    if trace:
        told["exception"] = trace
    return told


def _trace(error: Any) -> str:
    """The traceback of what structlog or plain logging was given as an exception."""
    if isinstance(error, BaseException):
        error = (type(error), error, error.__traceback__)
    elif error and not isinstance(error, tuple):
        error = sys.exc_info()
    return logging.Formatter().formatException(error) if error and error[0] else ""


def _render_console(_logger: Any, _method: str, event: Event) -> str:
    head = [event.pop(name) for name in _HEAD]
    trace = event.pop("exception", "")
    line = " ".join(map(str, [*head, *(f"{name}={value}" for name, value in event.items())]))
    return f"{line}\n{trace}" if trace else line


class _Formatter(structlog.stdlib.ProcessorFormatter):
    def __init__(self, renderer: Processor) -> None:
        super().__init__(processors=[_tell, redaction.processor, renderer])

    def format(self, record: logging.LogRecord) -> str:
        try:
            record.getMessage()
        except Exception:  # a line that cannot be formatted is written all the same
            record = logging.makeLogRecord({**vars(record), "msg": str(record.msg), "args": ()})
        if record.exc_text:  # which structlog forgets
            record = logging.makeLogRecord({**vars(record), "_trace": record.exc_text})
        return super().format(record)


class JsonFormatter(_Formatter):
    """One JSON object per line: time, level, logger, message, what is bound, and extras."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(
            structlog.processors.JSONRenderer(json.dumps, ensure_ascii=False, default=str)
        )


class ConsoleFormatter(_Formatter):
    """A line for people: time, level, logger, message, then ``name=value`` of what is bound."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(_render_console)


def write_somewhere() -> None:
    """Write what the platform logs to standard error, where the settings leave it unsaid.

    Django's default ``LOGGING`` has no handler for loggers other than its own.
    """
    logger = logging.getLogger("jobs")
    is_configured = bool(settings.LOGGING) or settings.LOGGING_CONFIG is None
    handlers = list(_handlers(logger))
    # A handler of an error tracker alone writes nothing that a person at the console sees.
    if any(isinstance(one, logging.StreamHandler) for one in handlers):
        return
    if handlers and is_configured:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(ConsoleFormatter())
    logger.addHandler(handler)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)


def _handlers(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    """The handlers that a record of the logger reaches."""
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


def configure() -> None:
    """``structlog.get_logger()`` writes through the formatters of plain logging from now on."""
    structlog.configure(
        processors=[
            _filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


# ---- the log of an attempt


class _Keeper:
    """A structlog processor that remembers the last lines, whatever the logger does with them."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: deque[tuple[float, int, str]] | None = None

    def __call__(self, logger: Any, method: str, event: Event) -> Event:
        level = _level(method)
        if level >= logging.INFO or logger.isEnabledFor(level):
            if self.lines is None:
                self.lines = deque(maxlen=LINES_LIMIT)
            self.lines.append((time.time(), level, str(event.get("event", ""))[:_LONGEST]))
        return event


_LEVELS = {
    "debug": logging.DEBUG,
    "warning": logging.WARNING,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
    "critical": logging.CRITICAL,
    "fatal": logging.CRITICAL,
}


def _level(method: str) -> int:
    return _LEVELS.get(method, logging.INFO)


def _interpolate(_logger: Any, _method: str, event: Event) -> Event:
    """The message with its arguments; one that does not fit them stays as it is."""
    args = event.pop("positional_args", None)
    try:
        text = str(event.get("event", ""))
        if args:
            one = args[0] if len(args) == 1 and isinstance(args[0], Mapping) and args[0] else args
            text %= one
    except Exception:
        text = "(a line that cannot be shown)"
    event["event"] = text
    return event


def _to_record(logger: Any, _method: str, event: Event) -> tuple[tuple[()], dict[str, Any]]:
    """Arguments for plain logging: fields as extras, from the place that logs."""
    given = {name: event.pop(name) for name in ("exc_info", "stack_info") if name in event}
    text = event.pop("event", "")
    fields = {**(event.pop("extra", None) or {}), **event}
    extra = {f"{name}_" if name in _OWN else name: value for name, value in fields.items()}
    # Where a host has had structlog replace the class of loggers, they skip its frames themselves.
    plain = getattr(type(logger), "findCaller", None) is logging.Logger.findCaller
    depth = _depth() if plain else 1
    return (), {"msg": text, "extra": extra, **given, "stacklevel": depth}


def _depth() -> int:
    """How many frames lie between plain logging and the caller."""
    frame, depth = sys._getframe(1), 0
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and not name.startswith("structlog"):
            break
        frame, depth = frame.f_back, depth + 1
    return depth - 1


class AttemptLog(structlog.stdlib.BoundLogger):
    """The log of a running attempt; it remembers its last lines for the case that it fails.

    ``bind`` answers one with more fields, whose lines are remembered with the others.
    """

    @classmethod
    def of(cls, logger: logging.Logger, **fields: object) -> AttemptLog:
        """The log of an attempt whose lines have these fields."""
        return cls(logger, [_interpolate, _Keeper(), _filter_by_level, _to_record], fields)

    def lines(self) -> list[str]:
        """The remembered lines, redacted, oldest first: time, level and message."""
        keeper = next(one for one in self._processors if isinstance(one, _Keeper))
        return [
            f"{datetime.fromtimestamp(moment, UTC).isoformat(timespec='milliseconds')} "
            f"{logging.getLevelName(level)} "
            f"{redaction.redact_text(text, limit=LINE_LIMIT, head=1)}"[:LINE_LIMIT]
            for moment, level, text in list(keeper.lines or ())
        ]
