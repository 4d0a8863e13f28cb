"""Copies of exceptions that may leave the process: for logs, error trackers and receivers.

A copy has the class name, the redacted message and notes, the causes and the stack of the
exception it was made of. Its frames have no variables, since those hold the payload; nothing that a
tracker reads from the copy is more than what is stored with a failed attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, TracebackType

from jobs import redaction
from jobs.redaction import Redacted

MESSAGE_LIMIT = 4000
_MOST_EXCEPTIONS = 30
_MOST_FRAMES = 200
"""Of a deeper stack the innermost frames are kept."""
_MOST_NOTES = 20


class RedactedGroup(Redacted, ExceptionGroup[Exception]):
    """A copy of an exception group."""


def copy(error: BaseException, trace: TracebackType | None) -> Redacted:
    """Return a copy of the exception that begins at this part of its traceback. Never raises."""
    try:
        return _Copier().copy(error, trace)
    except Exception:
        return Redacted("(an exception that cannot be shown)")


def rebuilt(class_name: str, message: str) -> Redacted:
    """Return a copy of what another process has raised and redacted, without stack and causes."""
    module, _, name = class_name.rpartition(".")
    return _class(name, module or "builtins")(message)


def text(error: BaseException) -> str:
    """Return the exception's message, whatever its class does."""
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"


class _Copier:
    """Copies an exception with its causes, of which there may be many."""

    def __init__(self) -> None:
        self._left = _MOST_EXCEPTIONS

    def copy(self, error: BaseException, trace: TracebackType | None) -> Redacted:
        self._left -= 1
        made = self._bare(error)
        if error.__cause__ is not None:
            made.__cause__ = self._inner(error.__cause__)
        elif error.__context__ is not None and not error.__suppress_context__:
            made.__context__ = self._inner(error.__context__)
        notes = getattr(error, "__notes__", None)
        if isinstance(notes, list):
            for note in notes[:_MOST_NOTES]:
                made.add_note(_redacted(str(note)))
        return made.with_traceback(_stack(trace))

    def _inner(self, error: BaseException) -> Redacted | None:
        return self.copy(error, error.__traceback__) if self._left > 0 else None

    def _bare(self, error: BaseException) -> Redacted:
        """The copy without stack and causes."""
        name, module = redaction.redact_text(type(error).__qualname__), type(error).__module__
        if isinstance(error, BaseExceptionGroup):
            inner = [made for one in error.exceptions if (made := self._inner(one)) is not None]
            if inner:
                return _group_class(name, module)(_redacted(str(error.message)), inner)
        return _class(name, module)(_redacted(text(error)))


def _redacted(message: str) -> str:
    return redaction.redact_text(message, multiline=True, limit=MESSAGE_LIMIT, head=1)


@lru_cache(maxsize=500)
def _class(name: str, module: str) -> type[Redacted]:
    return type(name.rpartition(".")[2], (Redacted,), {"__module__": module, "__qualname__": name})


@lru_cache(maxsize=100)
def _group_class(name: str, module: str) -> type[RedactedGroup]:
    attributes = {"__module__": module, "__qualname__": name}
    return type(name.rpartition(".")[2], (RedactedGroup,), attributes)


def _stack(trace: TracebackType | None) -> TracebackType | None:
    frames = list(_walk(trace))[-_MOST_FRAMES:]
    made: TracebackType | None = None
    for one in reversed(frames):
        code, module = one.tb_frame.f_code, one.tb_frame.f_globals.get("__name__", "")
        made = TracebackType(made, _frame(code, module, one.tb_lineno), 0, one.tb_lineno)
    return made


def _walk(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _blank() -> Iterator[None]:
    yield


def _frame(code: CodeType, module: str, line: int) -> FrameType:
    """A frame that never runs: of this function, at this line, without variables or callers."""
    shown = _blank.__code__.replace(
        co_filename=code.co_filename, co_name=code.co_name, co_firstlineno=line
    )
    generator = FunctionType(shown, {"__name__": module})()
    frame: FrameType = generator.gi_frame
    return frame
