"""Pages and streams of the feed, as the API answers with them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections
from django.http import StreamingHttpResponse

from jobs.engine import feed
from jobs.events import Event
from jobs.realtime.answers import TROUBLES, answer
from jobs.realtime.hub import hub
from jobs.realtime.parcels import Parcel
from jobs.realtime.questions import Question, View
from jobs.realtime.staying import Stay

RETRY = 2000
"""Milliseconds after which a browser comes again."""
_SCANS = 10
"""Pages of the feed that one answer looks through for something rare."""


def page(asked: Question) -> tuple[list[Event], int]:
    """The next events that are shown, and the position behind which the others are."""
    view, since = asked.view, asked.since
    found: list[Event] = []
    for _ in range(_SCANS):
        read = feed.feed(since, view.topics or None, view.tenants_to_read, feed.LIMIT)
        for event in read:
            if not view.shows(event, is_live=False):
                continue
            found.append(event)
            if len(found) == asked.limit:
                return found, event.position
        since = read.position
        if read.is_end:
            break
    return found, since or 0


def stream(asked: Question, again: Callable[[], View | None]) -> StreamingHttpResponse:
    """What is asked for, and all that follows, until one leaves, or may see something else.

    To be called in a thread of an event loop, which carries the stream. Raises what there is to
    say before the stream begins: FeedGone or Cut.
    """
    parcels, first = async_to_sync(_begun)(asked)

    def seen() -> View | None:
        try:
            return again()
        finally:
            _release()

    lines = _lines(first, parcels, Stay(asked.view, sync_to_async(seen)))
    response = StreamingHttpResponse(lines, content_type="text/event-stream")
    response["Cache-Control"] = "no-store, no-transform"
    response["X-Accel-Buffering"] = "no"
    return response


async def _begun(asked: Question) -> tuple[AsyncGenerator[Parcel, None], Parcel]:
    parcels = hub().listen(asked)
    return parcels, await anext(parcels)


async def _lines(
    first: Parcel, parcels: AsyncGenerator[Parcel, None], stay: Stay
) -> AsyncIterator[bytes]:
    try:
        await sync_to_async(_release)()
        yield f"retry: {RETRY}\n".encode() + first.lines
        async for parcel in parcels:
            await stay.check()
            yield parcel.lines
    except TROUBLES as trouble:
        found = answer(trouble)
        yield f'event: closed\ndata: {{"code":{found.code},"reason":"{found.kind}"}}\n\n'.encode()
    finally:
        await parcels.aclose()


def _release() -> None:
    """The request holds no connection to a database: it may last for days."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
