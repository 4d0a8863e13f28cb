"""Live pages over one stream, where an ASGI server serves them.

The stream of a page says which of its regions are stale; the page then asks for those alone. The
server looks by itself every few seconds, and at once when an event of the platform rings. Each look
is the page's own view, asked again with the session as it is by then: who may not see it any more
gets nothing more. Elsewhere pages ask for their regions every few seconds themselves.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, connections
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from jobs.admin.access import principal
from jobs.errors import JobsError
from jobs.principals import Principal

STREAM, LOOK = "_stream", "_look"
"""Names in the address of a page: its stream, and the marks of its regions as they are now."""
MOST = 500
"""Streams of one process; further pages poll every few seconds."""
GAP = 1.0
"""Seconds between two looks, however often it rings."""
SLOWEST, FASTEST = 15.0, 2.0
RETRY = 2000
_open: set[object] = set()


def can_stream(request: HttpRequest) -> bool:
    """Whether the page may ask for its stream."""
    return isinstance(request, ASGIRequest) and getattr(request, "session", None) is not None


def stream(request: HttpRequest) -> HttpResponseBase:
    """What goes stale on the page from now on, until one leaves."""
    if not isinstance(request, ASGIRequest) or not can_stream(request):
        return HttpResponse(status=501)
    if len(_open) >= MOST:
        return HttpResponse(status=503, headers={"Retry-After": "60"})
    response = StreamingHttpResponse(
        _lines(request, principal(request)), content_type="text/event-stream"
    )
    response["Cache-Control"] = "no-store, no-transform"
    response["X-Accel-Buffering"] = "no"
    return response


async def _lines(request: ASGIRequest, who: Principal) -> AsyncIterator[bytes]:
    known: dict[str, str] = {}
    rings, mark = asyncio.Event(), object()
    _open.add(mark)
    hearing = asyncio.create_task(_hear(who, rings))
    try:
        yield f"retry: {RETRY}\n\n".encode()
        while True:
            rings.clear()
            found = await sync_to_async(_look)(request)
            if found is None:
                yield b"event: closed\ndata: []\n\n"
                return
            stale = [name for name, tag in found.items() if known.get(name) != tag]
            # Also when nothing is stale: silence would be a server that is gone.
            yield f"event: stale\ndata: {json.dumps(stale)}\n\n".encode()
            known = found
            await asyncio.sleep(GAP)
            with suppress(TimeoutError):
                async with asyncio.timeout(_seconds(request) - GAP):
                    await rings.wait()
    finally:
        _open.discard(mark)
        hearing.cancel()


async def _hear(who: Principal, rings: asyncio.Event) -> None:
    """Rings whenever something happens that the reader may know of."""
    from jobs.realtime.hub import Cut, hub
    from jobs.realtime.questions import Question, View

    view = View(("jobs.*",), who.scope.tenants, who.scope.queues, who.is_staff)
    parcels = hub().listen(Question(view))
    try:
        async for parcel in parcels:
            if parcel.items:
                rings.set()
    except (Cut, JobsError):
        return  # the looks go on by the clock
    finally:
        await parcels.aclose()


def _look(request: ASGIRequest) -> dict[str, str] | None:
    """The marks of the page's regions; None where the page is not shown any more."""
    match = request.resolver_match
    key = request.session.session_key
    if match is None or key is None:
        return None
    asked = request.GET.copy()
    asked.pop(STREAM, None)
    asked[LOOK] = "1"
    again = ASGIRequest({**request.scope, "query_string": asked.urlencode().encode()}, BytesIO())
    again.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    again.user = get_user(again)
    again.resolver_match = match
    try:
        answer: Any = match.func(again, *match.args, **match.kwargs)
        if answer.status_code != 200:
            return None
        found: dict[str, str] = json.loads(answer.content)
        return found
    except (PermissionDenied, Http404, JobsError, DatabaseError):
        return None  # the page asks by itself, and hears why
    finally:
        for connection in connections.all(initialized_only=True):
            connection.close()  # none is held between two looks


def _seconds(request: HttpRequest) -> float:
    """How often the page wants to be looked at."""
    text = request.GET.get(STREAM, "")
    wanted = float(text[:4]) if text.isascii() and text.isdigit() else 5.0
    return min(SLOWEST, max(FASTEST, wanted))
