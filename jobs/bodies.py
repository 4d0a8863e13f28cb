"""How large the bodies of requests may be, asked before anybody reads them.

``jobs.asgi.get_asgi_application`` bounds the bodies of all requests that it answers. Around another
server's application::

    application = bodies.bounded(get_wsgi_application())  # wsgi.py
    application = bodies.bounded_asgi(ASGIStaticFilesHandler(pages), streams=True)  # asgi.py

A view that is declared by ``jobs.api.uploads.streamed`` takes a larger body, and reads it itself.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from django.conf import settings as django_settings
from django.core.handlers.asgi import get_script_prefix
from django.core.handlers.wsgi import get_path_info
from django.urls import Resolver404, resolve

from jobs import conf

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
ASGI = Callable[[Any, Any, Any], Awaitable[None]]
WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

STREAMED = "jobs.streamed"
"""In the scope of a request whose body is for its view to read."""
LIMIT = "jobs_body_limit"
"""Attribute of a view that reads bodies of up to this size itself."""
_of_operations: set[int] = set()


def allow(size: int) -> None:
    """An operation takes bodies of this many bytes."""
    _of_operations.add(size)


def largest() -> int:
    """Return the size of the largest body that any operation or page takes."""
    of_pages = django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0
    return max(conf.settings().API_BODY_LIMIT, of_pages, *_of_operations, 0)


def streamed_limit(path: str) -> int:
    """Return the largest body that the view at this path reads by itself; 0 if it reads none."""
    try:
        return int(getattr(resolve(path).func, LIMIT, 0))
    except Resolver404:
        return 0


def bounded_asgi(application: ASGI, limit: int | None = None, *, streams: bool = False) -> ASGI:
    """Return the ASGI application, which is given no body above ``limit`` or ``largest()``.

    ``streams`` says that the application hands the bodies of streamed views on unread, as that of
    ``jobs.asgi`` does; their own limits hold then. Django's reads every body before its view runs.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        most, declared = largest() if limit is None else limit, _declared(scope)
        if streams and declared > most:
            own = streamed_limit(scope["path"].removeprefix(get_script_prefix(scope)))
            if own > most:
                most, scope = own, {**scope, STREAMED: True}
        if declared > most:
            await _refuse(send, most)
            return
        body = _Body(receive, most)
        await application(scope, body, send)
        if body.is_too_large and STREAMED not in scope:  # whose view has answered by itself
            await _refuse(send, most)

    return answer


class _Body:
    """What a client sends; too much of it is a client who has gone."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._left = receive, most
        self.is_too_large = False

    async def __call__(self) -> Mapping[str, Any]:
        message = await self._receive()
        self._left -= len(message.get("body") or b"")
        if self._left < 0:
            self.is_too_large = True
            return {"type": "http.disconnect"}
        return message


def _declared(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


def _refusal(most: int) -> tuple[dict[str, str], bytes]:
    """Return the headers and the text of a problem, in the form of the API."""
    told = {
        "type": "about:blank",
        "title": "Content Too Large",
        "status": 413,
        "detail": f"the body is larger than {most} bytes",
        "code": "too-large",
    }
    text = json.dumps(told).encode()
    return {"Content-Type": "application/problem+json", "Content-Length": str(len(text))}, text


async def _refuse(send: Send, most: int) -> None:
    headers, text = _refusal(most)
    # A client that still sends is not listened to any more: the server closes the connection.
    headers["Connection"] = "close"
    told = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": 413, "headers": told})
    await send({"type": "http.response.body", "body": text})


def bounded(application: WSGI, limit: int | None = None) -> WSGI:
    """Return the WSGI application, which is given no body above ``limit`` or ``largest()``.

    A body without a length is none to Django, which reads nothing of it.
    """

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        most = largest() if limit is None else limit
        length = str(environ.get("CONTENT_LENGTH") or "")
        declared = int(length[:20]) if length.isdecimal() else 0
        if declared > most:
            most = max(most, streamed_limit(get_path_info(environ)))
        if declared > most:
            headers, text = _refusal(most)
            start("413 Content Too Large", list(headers.items()))
            return [text]
        return application(environ, start)

    return answer
