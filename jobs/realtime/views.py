"""The feed over HTTP: page by page, or as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from jobs.engine import feed
from jobs.errors import EventError
from jobs.events import Event
from jobs.names import label_problem
from jobs.principals import Principal
from jobs.realtime import tickets
from jobs.realtime.access import principal_of, request_again
from jobs.realtime.answers import TROUBLES, Answer, NobodyKnown, answer, problem
from jobs.realtime.hub import hub
from jobs.realtime.parcels import Parcel, as_dict
from jobs.realtime.questions import Question, question
from jobs.realtime.staying import Stay

RETRY = 2000
"""Milliseconds after which a browser comes again."""
_SCANS = 10
"""Pages of the feed that one answer looks through for something rare."""


@require_safe
def events(request: HttpRequest) -> HttpResponse:
    """One page: what happened after ``since``, and where to read on."""
    try:
        found, position = page(question(request.GET, _who(request)))
    except TROUBLES as trouble:
        return problem(answer(trouble))
    response = JsonResponse({"data": [as_dict(event) for event in found], "next": position})
    response["Cache-Control"] = "no-store"
    return response


@csrf_exempt  # nothing changes, and the page of another site cannot read the answer
@require_POST
def ticket(request: HttpRequest) -> HttpResponse:
    """A ticket for a page; ``{"tenants": […]}`` in the body narrows what it shows."""
    try:
        if "ticket" in request.GET:
            raise EventError("ticket", "is no way to another one")
        made = tickets.issue(_who(request), _narrowed(request))
    except TROUBLES as trouble:
        return problem(answer(trouble))
    response = JsonResponse({"ticket": made, "seconds": tickets.SECONDS}, status=201)
    response["Cache-Control"] = "no-store"
    return response


def _narrowed(request: HttpRequest) -> list[str] | None:
    try:
        told = json.loads(request.body or b"{}")
        unknown = sorted(set(told) - {"tenants"})
        tenants = told.get("tenants")
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise EventError("body", "must be a JSON object") from None
    if unknown:
        raise EventError(unknown[0][:50], "is unknown; there is tenants")
    if tenants is None:
        return None
    if not isinstance(tenants, list) or not all(isinstance(one, str) for one in tenants):
        raise EventError("tenants", "must be a list of texts")
    for name in tenants:
        if wrong := label_problem(name):
            raise EventError("tenants", wrong)
    return tenants


def page(asked: Question) -> tuple[list[Event], int]:
    """The next events that are shown, and the position behind which the others are."""
    view, since = asked.view, asked.since
    found: list[Event] = []
    for _ in range(_SCANS):
        read = feed.feed(since, view.topics or None, view.tenants_to_read, feed.LIMIT)
        for event in filter(view.shows, read):
            found.append(event)
            if len(found) == asked.limit:
                return found, event.position
        since = read.position
        if read.is_end:
            break
    return found, since or 0


@require_safe
async def stream(request: HttpRequest) -> HttpResponseBase:
    """Everything after ``since`` or ``Last-Event-ID``, and all that follows, until one leaves."""
    if not isinstance(request, ASGIRequest):
        words = "events are streamed by an ASGI server only; ask GET /api/v1/events instead"
        return problem(Answer(501, 1011, "no-stream", "No stream", words))
    try:
        who = await sync_to_async(_who)(request)
        asked = question(request.GET, who, request.headers.get("Last-Event-ID") or None)
        parcels = hub().listen(asked)
        first = await anext(parcels)
    except TROUBLES as trouble:
        return problem(answer(trouble))
    stay = Stay(asked.view, lambda: request_again(request))
    lines = _lines(first, parcels, stay)
    response = StreamingHttpResponse(lines, content_type="text/event-stream")
    response["Cache-Control"] = "no-store, no-transform"
    response["X-Accel-Buffering"] = "no"
    return response


async def _lines(
    first: Parcel, parcels: AsyncGenerator[Parcel, None], stay: Stay
) -> AsyncIterator[bytes]:
    try:
        yield f"retry: {RETRY}\n".encode() + first.lines
        async for parcel in parcels:
            await stay.check()
            yield parcel.lines
    except TROUBLES as trouble:
        found = answer(trouble)
        yield f'event: closed\ndata: {{"code":{found.code},"reason":"{found.kind}"}}\n\n'.encode()
    finally:
        await parcels.aclose()


def _who(request: HttpRequest) -> Principal:
    if (who := principal_of(request)) is None:
        raise NobodyKnown
    return who
