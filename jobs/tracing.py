"""Tracing: spans of OpenTelemetry for enqueues, waits, attempts and effects, linked by the row.

Nothing is imported here: where the program itself has set up a tracer provider, spans are made, and
otherwise everything costs a look into ``sys.modules``. Spans tell kinds, ids and classes of errors,
and never a payload or the text of an error.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from jobs import redaction
from jobs.masks import HIDDEN

CONTEXT_LIMIT = 2000
"""A longer context is not stored."""
_FLUSH_MS = 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Kind = Literal["PRODUCER", "CONSUMER", "CLIENT", "INTERNAL"]
Fail = Callable[[str], None]
"""Marks the span as failed, by the class of the error."""


_inherited: ContextVar[str] = ContextVar("jobs_inherited_trace", default="")
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z")
_STATE = re.compile(r"[\x20-\x7e]{1,512}\Z")


def of_headers(traceparent: str, tracestate: str = "") -> str:
    """What a request says of its caller's span, as text for a job's row; empty where that is
    nothing, or nonsense.
    """
    parent = traceparent.strip()
    if not _PARENT.match(parent):
        return ""
    found = {"traceparent": parent}
    if _STATE.match(tracestate):
        found["tracestate"] = tracestate
    return json.dumps(found)


@contextmanager
def inheriting(carrier: str) -> Iterator[None]:
    """Inside of the block jobs belong to this span of somebody else's, where none is active."""
    if not carrier:
        yield
        return
    token = _inherited.set(carrier)
    try:
        yield
    finally:
        _inherited.reset(token)


def carries() -> bool:
    """Whether new jobs may belong to a trace."""
    return _inherited.get() != "" or is_on()


def is_on() -> bool:
    """Whether somebody has set up a tracer provider in this process."""
    return _api() is not None


def span(
    name: str, kind: Kind, parent: str = "", /, **attributes: Any
) -> AbstractContextManager[Fail]:
    """The block is a span, below the stored parent if there is one, or else the active one.

    An exception that leaves the block marks it by its class.
    """
    return _span(name, kind, parent, "jobs.", attributes)


def piece(name: str, attributes: Mapping[str, Any]) -> AbstractContextManager[Fail]:
    """Make the block a span of an app's own, whose attributes have the names that it gives them."""
    return _span(name, "INTERNAL", "", "", attributes)


@contextmanager
def _span(
    name: str, kind: Kind, parent: str, prefix: str, attributes: Mapping[str, Any]
) -> Iterator[Fail]:
    api = _api()
    if api is None:
        yield _ignore
        return
    if not parent and not api.get_current_span().get_span_context().is_valid:
        parent = _inherited.get()
    tracer = api.get_tracer("jobs")
    told = {
        f"{prefix}{key}": HIDDEN if redaction.name_mask(key) else _shown(value)
        for key, value in attributes.items()
        if value != ""
    }
    with tracer.start_as_current_span(
        name,
        context=_context(parent),
        kind=api.SpanKind[kind],
        attributes=told,
        record_exception=False,
        set_status_on_exception=False,
    ) as made:

        def fail(error: str) -> None:
            made.set_attribute("error.type", error)
            made.set_status(api.StatusCode.ERROR)

        try:
            yield fail
        except BaseException as error:
            fail(type(error).__qualname__)
            raise


def past(name: str, parent: str, begin: datetime, end: datetime, /, **attributes: Any) -> None:
    """There was a span between these moments, below the stored parent."""
    api = _api()
    if api is None:
        return
    told = {f"jobs.{key}": _shown(value) for key, value in attributes.items() if value != ""}
    made = api.get_tracer("jobs").start_span(
        name, context=_context(parent), attributes=told, start_time=_nanoseconds(begin)
    )
    made.end(_nanoseconds(max(begin, end)))


def flush() -> None:
    """Send the spans that have ended, where the program's provider keeps them for a while."""
    api = _api()
    if api is not None and (send := getattr(api.get_tracer_provider(), "force_flush", None)):
        send(_FLUSH_MS)


def _nanoseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def carrier() -> str:
    """The active span as text for a job's row, or the inherited one; empty where there is none."""
    api = _api()
    if api is None or not api.get_current_span().get_span_context().is_valid:
        return _inherited.get()
    from opentelemetry import propagate

    found: dict[str, str] = {}
    propagate.inject(found)
    # Baggage is what others said of people; it stays where it is.
    found = {name: found[name] for name in ("traceparent", "tracestate") if name in found}
    text = json.dumps(found)
    return text if found and len(text) <= CONTEXT_LIMIT else ""


def _api() -> Any:
    api = sys.modules.get("opentelemetry.trace")
    # Others may have loaded the module, and asking it for a provider that nobody has set costs as
    # much as the rest of an attempt.
    if api is None or getattr(api, "_TRACER_PROVIDER", api) is None:
        return None
    if isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return None
    return api


def _context(parent: str) -> Any:
    if not parent:
        return None
    from opentelemetry import propagate

    try:
        return propagate.extract(json.loads(parent))
    except (ValueError, TypeError, AttributeError):
        return None


def _shown(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else redaction.redact_text(str(value))


def _ignore(error: str) -> None: ...
