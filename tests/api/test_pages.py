"""``jobs.asgi``: whole requests in a few threads, coroutines and streams in the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path, reverse
from django.views.decorators.csrf import csrf_exempt

from jobs.asgi import Handler, get_asgi_application

Messages = list[dict[str, Any]]
_over: list[str] = []
_meeting = threading.Barrier(2)


@csrf_exempt
def _plain(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{threading.get_ident()} {request.method} {request.body.decode()}")


def _loop(request: HttpRequest) -> HttpResponse:
    async def seen() -> int:
        return id(asyncio.get_running_loop())

    return HttpResponse(str(async_to_sync(seen)()))


def _meet(request: HttpRequest) -> HttpResponse:
    _meeting.wait(20)
    return HttpResponse("met")


def _broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("broken")


def _named(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse(f"{name} at {reverse('named', args=[name])}")


def _stream(request: HttpRequest) -> StreamingHttpResponse:
    async def parts() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            await asyncio.Event().wait()
        finally:
            _over.append("stream")

    return StreamingHttpResponse(parts())


def _lines(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(iter([b"a", b"b"]))


async def _coroutine(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(threading.get_ident()))


urlpatterns: list[Any] = [
    path("plain", _plain), path("loop", _loop), path("meet", _meet), path("broken", _broken),
    path("named/<str:name>", _named, name="named"), path("stream", _stream), path("lines", _lines),
    path("coroutine", _coroutine),
]  # fmt: skip


@pytest.fixture(autouse=True)
def urls(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    settings.SECURE_SSL_REDIRECT = False
    settings.ALLOWED_HOSTS = ["*"]


async def ask(handler: Handler, address: str, body: bytes = b"") -> tuple[int, str]:
    """What is answered; whoever asks leaves once the first part has come."""
    sent: Messages = []
    asked, answered = iter([{"type": "http.request", "body": body}]), asyncio.Event()

    async def receive() -> dict[str, Any]:
        for message in asked:
            return message
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if message.get("body"):
            answered.set()

    scope = {
        "type": "http", "method": "POST" if body else "GET", "path": address, "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }  # fmt: skip
    async with asyncio.timeout(30):
        await handler(scope, receive, send)
    return sent[0]["status"], b"".join(m.get("body", b"") for m in sent[1:]).decode()


def test_requests_share_threads_that_stay() -> None:
    async def run() -> set[str]:
        handler = Handler(1)
        return {(await ask(handler, "/plain"))[1].split()[0] for _ in range(5)}

    [thread] = asyncio.run(run())
    assert thread != str(threading.get_ident())


def test_as_many_requests_as_threads_run_at_the_same_time() -> None:
    async def run() -> list[tuple[int, str]]:
        handler = Handler(2)
        return list(await asyncio.gather(ask(handler, "/meet"), ask(handler, "/meet")))

    assert asyncio.run(run()) == [(200, "met")] * 2


def test_a_body_arrives_and_what_breaks_is_an_answer() -> None:
    handler = get_asgi_application(threads=1)
    assert isinstance(handler, Handler)
    assert asyncio.run(ask(handler, "/plain", b"all of it"))[1].endswith("POST all of it")
    status, said = asyncio.run(ask(handler, "/broken"))
    assert status == 500 and "RuntimeError" not in said
    for address in ("/nowhere", "/nowhere"):
        assert asyncio.run(ask(handler, address))[0] == 404
    for name in ("ann", "bob"):
        assert asyncio.run(ask(handler, f"/named/{name}")) == (200, f"{name} at /named/{name}")
    with pytest.raises(ValueError, match="websocket"):
        asyncio.run(handler({"type": "websocket"}, None, None))  # type: ignore[arg-type]


def test_what_a_view_calls_by_async_to_sync_runs_in_the_loop_of_the_server() -> None:
    async def run() -> bool:
        return (await ask(Handler(1), "/loop"))[1] == str(id(asyncio.get_running_loop()))

    assert asyncio.run(run())


def test_a_coroutine_is_answered_by_the_loop() -> None:
    assert asyncio.run(ask(Handler(1), "/coroutine")) == (200, str(threading.get_ident()))


def test_a_stream_ends_when_whoever_listens_has_left() -> None:
    _over.clear()
    assert asyncio.run(ask(Handler(1), "/stream")) == (200, "one")
    assert _over == ["stream"]


def test_a_stream_that_is_no_coroutine_arrives_whole() -> None:
    async def run() -> str:
        sent: Messages = []
        asked = iter([{"type": "http.request", "body": b""}])

        async def receive() -> dict[str, Any]:
            for message in asked:
                return message
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/lines", "query_string": b"",
                 "headers": [(b"host", b"localhost")]}  # fmt: skip
        async with asyncio.timeout(30):
            await Handler(1)(scope, receive, send)
        return b"".join(m.get("body", b"") for m in sent[1:]).decode()

    with pytest.warns(Warning, match="synchronous iterators"):
        assert asyncio.run(run()) == "ab"
