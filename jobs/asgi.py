"""Pages for an ASGI server, answered by a few threads that stay.

::

    # asgi.py
    import os

    from jobs.asgi import get_asgi_application

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "yourproject.settings")
    application = get_asgi_application(threads=16)

Django's own handler gives every request a new thread, with which the event loop and the middleware
then take turns, and which connects to whatever needs a connection again. Here a request is answered
as a whole by one of the threads: that costs half as much, and more requests than threads wait for
one another. Views that are coroutines, and answers that are streams, stay with the event loop, as
they do there. A large body for a view that is ``streamed`` (``jobs.api.uploads``) is read by that
view, in one of some threads for uploads.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import django
from asgiref.sync import SyncToAsync, ThreadSensitiveContext, iscoroutinefunction, sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import Resolver404, ResolverMatch, get_resolver, resolve, set_script_prefix
from django.utils.translation import get_language

from jobs import bodies
from jobs.incoming import IncomingBody

THREADS = 16
UPLOADS = 8
"""Threads for views that read a large body themselves."""
KNOWN = 1000
"""This many addresses are remembered."""
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


def get_asgi_application(threads: int = THREADS, body_limit: int | None = None) -> ASGIHandler:
    """Django's pages as an ASGI application; this many requests are answered at the same time.

    No request has a larger body than ``body_limit``; without it, than the largest that the API or
    ``DATA_UPLOAD_MAX_MEMORY_SIZE`` allows. Whoever sends more is answered 413 before anybody asks
    who he is.
    """
    django.setup(set_prefix=False)
    return Handler(threads, body_limit)


class Handler(ASGIHandler):
    """Requests are answered in threads of its own."""

    def __init__(self, threads: int = THREADS, body_limit: int | None = None) -> None:
        BaseHandler.__init__(self)
        self.load_middleware()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="page")
        self._uploads = ThreadPoolExecutor(UPLOADS, thread_name_prefix="upload")
        self._known: dict[tuple[str | None, str], ResolverMatch] = {}
        # Of Django's own, with middleware for coroutines; None where there is no such view.
        self._of_coroutines = (
            ASGIHandler() if _has_coroutines(get_resolver().url_patterns) else None
        )

        self._bounded = bodies.bounded_asgi(self._serve, body_limit, streams=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"there are pages here, and nothing for {scope['type']}")
        await self._bounded(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if bodies.STREAMED in scope:
            await self._serve_upload(scope, receive, send)
            return
        if self._of_coroutines is not None and _is_coroutine(scope):
            await self._of_coroutines(scope, receive, send)
            return
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        loop = asyncio.get_running_loop()
        context = copy_context()
        response: HttpResponseBase = await loop.run_in_executor(
            self._threads, context.run, self._answer, loop, scope, body
        )
        if not response.streaming:
            await self.send_response(response, send)
            return
        async with ThreadSensitiveContext():
            await self._stream(response, receive, send)

    async def _serve_upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a view that reads the body while it arrives."""
        loop = asyncio.get_running_loop()
        body = IncomingBody(receive, loop)
        try:
            response = await loop.run_in_executor(
                self._uploads, copy_context().run, self._answer, loop, scope, body
            )
        finally:
            body.abort()
        if not body.is_read:  # the rest of it is not listened to
            response["Connection"] = "close"
        await self.send_response(response, send)

    def _answer(self, loop: asyncio.AbstractEventLoop, scope: Scope, body: Any) -> HttpResponseBase:
        """The answer to the request, over and done with, unless it is a stream."""
        # What a view calls by async_to_sync runs in the loop of the server, as it does elsewhere.
        SyncToAsync.threadlocal.main_event_loop = loop
        SyncToAsync.threadlocal.main_event_loop_pid = os.getpid()
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        request, refused = self.create_request(scope, body)
        response: Any = refused if request is None else self.get_response(request)
        response._handler_class = type(self)
        if request is None:
            body.close()
        if not response.streaming:
            response.close()
        answer: HttpResponseBase = response
        return answer

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """The view of the request; addresses that say nothing else are looked up once."""
        if hasattr(request, "urlconf"):
            return super().resolve_request(request)
        place = get_language(), request.path_info
        found = self._known.get(place)
        if found is None:
            found = super().resolve_request(request)
            if not found.args and not found.kwargs and len(self._known) < KNOWN:
                self._known[place] = found
        request.resolver_match = found
        return found

    async def _stream(self, response: HttpResponseBase, receive: Receive, send: Send) -> None:
        """The stream is sent until it ends, or until nobody listens any more."""
        sending = asyncio.ensure_future(self.send_response(response, send))
        leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                if not task.done():
                    task.cancel()
                with suppress(asyncio.CancelledError, RequestAborted):
                    await task
            await sync_to_async(response.close)()


def _is_coroutine(scope: Scope) -> bool:
    """Whether the view of this path is one."""
    try:
        path = scope["path"].removeprefix(get_script_prefix(scope))
        return iscoroutinefunction(resolve(path).func)
    except Resolver404:
        return False


def _has_coroutines(patterns: Iterable[Any]) -> bool:
    """Whether any view of the project is one."""
    return any(
        _has_coroutines(one.url_patterns)
        if hasattr(one, "url_patterns")
        else iscoroutinefunction(one.callback)
        for one in patterns
    )
