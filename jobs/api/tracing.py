"""traceparent: jobs that a request enqueues belong to the trace of its caller."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from django.http import HttpRequest

from jobs import tracing
from jobs.engine import sql

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z")
_STATE = re.compile(r"[\x20-\x7e]{1,512}\Z")
Trace = Callable[[Sequence[UUID]], None]


@contextmanager
def traced(request: HttpRequest) -> Iterator[Trace]:
    """Answers a function that puts new jobs into the caller's trace.

    Where this process makes spans of its own, theirs is the nearer parent, and stays.
    """
    carrier = "" if tracing.is_on() else _carrier(request)

    def trace(ids: Sequence[UUID]) -> None:
        if carrier and ids:
            sql.run(
                "UPDATE jobs_job SET trace_context = %s WHERE id IN (SELECT id FROM jobs_job "
                "WHERE id = ANY(%s) AND trace_context = '' AND created_at >= "
                "transaction_timestamp() - interval '1 hour' ORDER BY id FOR NO KEY UPDATE)",
                [carrier, sorted(ids)],
            )

    yield trace


def _carrier(request: HttpRequest) -> str:
    parent = request.headers.get("traceparent", "").strip()
    if not _PARENT.match(parent):
        return ""
    found = {"traceparent": parent}
    state = request.headers.get("tracestate", "")
    if _STATE.match(state):
        found["tracestate"] = state
    return json.dumps(found)
