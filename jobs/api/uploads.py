"""Large bodies: a view judges the head of a request, and reads the body itself.

::

    @uploads.streamed(limit=100 * 1024 * 1024)
    def content(request, file_id):  # a plain view of the project's URLs
        file = signed_file(request, file_id)  # raises Problem: nothing has been read
        with file.open("wb") as out:
            for piece in uploads.pieces(request):
                out.write(piece)
        return HttpResponse(status=204)

The view runs when the head has arrived. Whatever it answers without reading ends the connection.
Other addresses refuse a body of this size by its length, from any sender.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from jobs import bodies
from jobs.api import auth, problem, throttle
from jobs.api.problem import Problem
from jobs.errors import Denied, InvalidOption
from jobs.principals import Principal

PIECE = 64 * 1024
"""Bytes that are read at a time."""
View = Callable[..., HttpResponseBase]


def streamed(limit: int) -> Callable[[View], View]:
    """Let the decorated view read request bodies of up to ``limit`` bytes itself.

    Requests with a body need a Content-Length. The view is exempt from CSRF checks, which would
    look for a token in the body, and from LoginRequiredMiddleware: it must trust no session, only a
    signature or a key in the headers. Errors of the view are answered as problems, as in the API.
    """
    if type(limit) is not int or limit < 1:
        raise InvalidOption("limit", f"must be a whole number of bytes above zero, got {limit!r}")

    def decorate(view: View) -> View:
        if iscoroutinefunction(view):
            raise InvalidOption("view", "must be a plain function: it reads in a thread")

        @functools.wraps(view)
        def judged(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            # Neither request.POST nor request.body may read it: they would keep all of it.
            request._read_started = True  # type: ignore[attr-defined]
            try:
                _check_length(request, limit)
                response = view(request, *args, **kwargs)
            except Exception as error:
                response = problem.answer(request, error)
            response.headers.setdefault("Cache-Control", "no-store")
            response["X-Content-Type-Options"] = "nosniff"
            return response

        setattr(judged, bodies.LIMIT, limit)
        made: View = login_not_required(csrf_exempt(judged))
        return made

    return decorate


def login(request: HttpRequest, permission: str) -> Principal:
    """Return the principal whose API key the head bears; raise unless it has the permission."""
    throttle.check_refused(request)
    for shown in (auth.ApiKey(), auth.ApiKeyHeader()):
        found = shown(request)
        if found is not None:
            throttle.take("write", found.name)
            if not found.may(permission):
                raise Denied(permission)
            return found
    throttle.refuse(request)
    raise Problem(401, "unauthenticated", "show an API key")


def length(request: HttpRequest) -> int:
    """Return how many bytes the request says that its body has."""
    declared = str(request.META.get("CONTENT_LENGTH") or "0")
    if not (declared.isascii() and declared.isdigit()):
        raise Problem(400, "bad-request", "Content-Length is no number")
    return int(declared[:20])


def pieces(request: HttpRequest, size: int = PIECE) -> Iterator[bytes]:
    """Yield the body piece by piece; raise a Problem if it ends before its length."""
    left = length(request)
    while left:
        try:
            piece = request.read(min(left, size))
        except OSError:  # the client has gone, or is too slow
            piece = b""
        if not piece:
            raise Problem(400, "incomplete", "the body ended before its Content-Length")
        left -= len(piece)
        yield piece


def _check_length(request: HttpRequest, limit: int) -> None:
    if request.method not in ("POST", "PUT", "PATCH"):
        return
    if not request.META.get("CONTENT_LENGTH"):
        raise Problem(411, "length-required", "Content-Length is needed")
    if length(request) > limit:
        raise Problem(413, "too-large", f"the body is larger than {limit} bytes")
