"""traceparent: jobs that a request enqueues belong to the trace of its caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.http import HttpRequest

from jobs import tracing


@contextmanager
def traced(request: HttpRequest) -> Iterator[None]:
    """Jobs that are enqueued inside of the block belong to the trace that the request names.

    Where this process makes spans of its own, the active one is the nearer parent.
    """
    told = tracing.of_headers(
        request.headers.get("traceparent", ""), request.headers.get("tracestate", "")
    )
    with tracing.inheriting(told):
        yield
