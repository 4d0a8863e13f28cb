"""``jobs.middleware.RequestMiddleware``: what a request is about, in its lines and in its jobs.

While a request is answered, every line that is logged has its id and its user, and jobs that are
enqueued carry the id as their ``correlation_id`` and belong to the trace of the caller. The answer
says the id (``X-Request-ID``), so that somebody who complains can name it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.log import log_response

from jobs import logs
from jobs.api import requests
from jobs.api.tracing import traced


class RequestMiddleware:
    """For sync and async servers alike; belongs before whatever logs or enqueues."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._answer_later(request)
        with _telling(request):
            return _numbered(request, self.get_response(request))

    async def _answer_later(self, request: HttpRequest) -> HttpResponseBase:
        with _telling(request):
            return _numbered(request, await self.get_response(request))


@contextmanager
def _telling(request: HttpRequest) -> Iterator[None]:
    with logs.binding_later(lambda: _fields(request), is_fixed=False), traced(request):
        yield


def _fields(request: HttpRequest) -> dict[str, str | int | None]:
    # Only where it is known already: a line of a log must not ask the database.
    user = getattr(request, "_cached_user", None) or getattr(request, "_acached_user", None)
    number = getattr(user, "pk", None)
    return {
        "request_id": requests.request_id(request),
        "user_id": None if number is None else str(number),
    }


def _numbered(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if response.status_code >= 400 and isinstance(response, HttpResponse):
        # Django would say the same once it has left this middleware; it says it once only.
        reason = response.reason_phrase
        log_response("%s: %s", reason, request.path, response=response, request=request)
    response["X-Request-ID"] = requests.request_id(request)
    return response
