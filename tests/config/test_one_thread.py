"""Under ASGI, middleware does not go to another thread and back for each of its steps."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory
from django.urls import path

threads: list[threading.Thread] = []


def seen(request: HttpRequest) -> HttpResponse:
    threads.append(threading.current_thread())
    return HttpResponse("seen")


urlpatterns = [path("seen", seen)]


class Noting:
    """Notes the thread in which it runs; would be asynchronous where it may."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Any) -> None:
        from inspect import iscoroutinefunction

        assert not iscoroutinefunction(get_response)
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        threads.append(threading.current_thread())
        return self.get_response(request)


def test_middleware_and_view_share_the_thread_of_the_request(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    noting = f"{__name__}.Noting"
    settings.MIDDLEWARE = [noting, *settings.MIDDLEWARE[:-1], noting, settings.MIDDLEWARE[-1]]
    threads.clear()
    request = AsyncRequestFactory().get("/seen", secure=True)
    answer: Any = asyncio.run(ASGIHandler().get_response_async(request))
    assert (answer.status_code, answer.content) == (200, b"seen")
    assert len(threads) == 3 and len(set(threads)) == 1
    assert threads[0] is not threading.main_thread()
