"""A streamed view judges the head of a request, and reads the body itself, up to its limit."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client as DjangoClient
from django.test import RequestFactory
from django.urls import path

from jobs import bodies, incoming
from jobs.api import Problem, uploads
from jobs.asgi import Handler
from jobs.errors import InvalidOption
from tests.api.conftest import Caller

MEGABYTE = 1024 * 1024
LIMIT = 50 * MEGABYTE
CHUNK = 64 * 1024
seen: dict[str, Any] = {}


@uploads.streamed(limit=LIMIT)
def content(request: HttpRequest, name: str) -> HttpResponse:
    """Take the body of a request that bears the right signature."""
    seen["thread"] = threading.current_thread().name
    if request.headers.get("X-Signature") != "right":
        raise Problem(403, "signature-invalid", "it is not signed")
    assert request.POST == {} and request.FILES == {}
    sizes = [len(piece) for piece in uploads.pieces(request)]
    return HttpResponse(json.dumps([sum(sizes), max(sizes, default=0)]))


@uploads.streamed(limit=LIMIT)
def wrong(request: HttpRequest) -> HttpResponse:
    return HttpResponse(len(request.read()))


@uploads.streamed(limit=LIMIT)
def keyed(request: HttpRequest) -> HttpResponse:
    return HttpResponse(uploads.login(request, "enqueue_job").name)


def plain(request: HttpRequest) -> HttpResponse:
    return HttpResponse(len(request.body))


urlpatterns = [
    path("up/<str:name>", content), path("wrong", wrong), path("plain", plain),
    path("keyed", keyed),
]  # fmt: skip
# The end of a request looks after connections of the database.
pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db]


class Client:
    """A client of an ASGI application, which sends ``sent`` bytes in chunks."""

    def __init__(self, length: int | None, send: int, **headers: str) -> None:
        self.left, self.taken, self.is_silent = send, 0, False
        self.heard: list[Mapping[str, Any]] = []
        pairs = {"host": "testserver", **headers}
        if length is not None:
            pairs["content_length"] = str(length)
        self.headers = [(k.replace("_", "-").encode(), v.encode()) for k, v in pairs.items()]

    async def receive(self) -> Mapping[str, Any]:
        if not self.left:
            if self.is_silent:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}
        size = min(self.left, CHUNK)
        self.left -= size
        self.taken += size
        return {
            "type": "http.request",
            "body": b"x" * size,
            "more_body": self.left > 0 or self.is_silent,
        }

    async def send(self, message: Mapping[str, Any]) -> None:
        self.heard.append(message)

    def ask(self, where: str = "/up/a", method: str = "PUT", application: Any = None) -> int:
        scope = {
            "type": "http", "method": method, "path": where, "raw_path": where.encode(),
            "query_string": b"", "headers": self.headers, "root_path": "", "scheme": "http",
            "client": ("127.0.0.1", 1), "server": ("testserver", 80), "http_version": "1.1",
        }  # fmt: skip

        async def asked() -> None:
            async with asyncio.timeout(60):
                await (application or Handler(1))(scope, self.receive, self.send)

        asyncio.run(asked())
        return int(self.heard[0]["status"])

    @property
    def body(self) -> Any:
        return json.loads(b"".join(one.get("body", b"") for one in self.heard[1:]))

    @property
    def answer(self) -> dict[bytes, bytes]:
        return dict(self.heard[0]["headers"])


def test_a_large_body_is_handed_on_in_pieces() -> None:
    client = Client(LIMIT, LIMIT, x_signature="right")
    assert client.ask() == 200
    assert client.body == [LIMIT, CHUNK]
    assert seen["thread"].startswith("upload")
    assert b"Connection" not in client.answer
    assert client.answer[b"X-Content-Type-Options"] == b"nosniff"


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH"])
def test_an_unsigned_one_is_not_read(method: str) -> None:
    client = Client(LIMIT, LIMIT)
    assert client.ask(method=method) == 403
    assert client.body["code"] == "signature-invalid"
    assert client.taken == 0
    assert client.answer[b"Connection"] == b"close"


@pytest.mark.parametrize("where", ["/up/a", "/plain", "/nowhere", "/wrong"])
def test_one_above_the_limit_is_refused_by_its_length(where: str) -> None:
    client = Client(LIMIT + 1, LIMIT + 1, x_signature="right")
    assert client.ask(where) == 413 and client.taken == 0


def test_only_a_streamed_view_takes_what_is_larger_than_usual() -> None:
    size = bodies.largest() + 1
    for where, status in (("/up/a", 200), ("/plain", 413), ("/nowhere", 413)):
        client = Client(size, size, x_signature="right")
        assert client.ask(where) == status, where


def test_a_small_body_goes_the_usual_way() -> None:
    client = Client(10, 10, x_signature="right")
    assert client.ask() == 200 and client.body == [10, 10]
    assert seen["thread"].startswith("page")


def test_a_body_needs_a_length() -> None:
    client = Client(None, 10, x_signature="right")
    assert (client.ask(), client.body["code"]) == (411, "length-required")
    assert Client(None, LIMIT, x_signature="right").ask() == 413


def test_a_client_that_goes_is_a_body_that_is_not_whole() -> None:
    client = Client(LIMIT, LIMIT - 1, x_signature="right")
    assert (client.ask(), client.body["code"]) == (400, "incomplete")


def test_a_client_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "IDLE", 0.2)
    monkeypatch.setattr(incoming, "SLOWEST", 10**9)
    client = Client(LIMIT, CHUNK * 3, x_signature="right")
    client.is_silent = True
    assert (client.ask(), client.body["code"]) == (400, "incomplete")
    assert client.answer[b"Connection"] == b"close"


def test_a_view_that_wants_all_of_it_at_once_gets_nothing() -> None:
    client = Client(LIMIT, LIMIT)
    assert client.ask("/wrong") == 500 and client.taken == 0


def test_a_server_that_ends_takes_its_readers_along() -> None:
    """Cancelled from outside, no thread goes on waiting for the client."""
    client = Client(LIMIT, CHUNK, x_signature="right")
    client.is_silent = True
    handler = Handler(1)

    async def cancelled() -> None:
        scope = {"type": "http", "method": "PUT", "path": "/up/a", "query_string": b"",
                 "headers": client.headers, "root_path": ""}  # fmt: skip
        task = asyncio.ensure_future(handler(scope, client.receive, client.send))
        while client.left:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(incoming.IDLE / 2):
            await asyncio.to_thread(handler._uploads.shutdown)

    asyncio.run(cancelled())


def test_an_application_that_reads_ahead_gets_no_large_body() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it is asked")

    client = Client(LIMIT, LIMIT, x_signature="right")
    assert client.ask(application=bodies.bounded_asgi(application)) == 413
    assert client.taken == 0


class Input(io.RawIOBase):
    """What a WSGI server gives to read."""

    def __init__(self, size: int) -> None:
        self.left, self.most, self.taken = size, 0, 0

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None and size >= 0, "it is read whole"
        size = min(size, self.left)
        self.left -= size
        self.taken += size
        self.most = max(self.most, size)
        return b"x" * size


def by_wsgi(where: str, length: int, body: Input, **headers: str) -> tuple[str, bytes]:
    made = RequestFactory().put(where, **{f"HTTP_{k}": v for k, v in headers.items()})  # type: ignore[arg-type]
    environ = {**made.environ, "CONTENT_LENGTH": str(length), "wsgi.input": body}
    said: list[str] = []
    answer = bodies.bounded(WSGIHandler())(environ, lambda status, *_: said.append(status))
    return said[0][:3], b"".join(answer)


def test_wsgi_streams_as_well() -> None:
    body = Input(LIMIT)
    status, answer = by_wsgi("/up/a", LIMIT, body, X_SIGNATURE="right")
    assert (status, json.loads(answer)) == ("200", [LIMIT, CHUNK])
    assert body.most <= CHUNK

    unsigned = Input(LIMIT)
    assert by_wsgi("/up/a", LIMIT, unsigned)[0] == "403" and unsigned.taken == 0
    short = Input(CHUNK)
    assert by_wsgi("/up/a", LIMIT, short, X_SIGNATURE="right")[0] == "400"
    large = Input(LIMIT + 1)
    assert by_wsgi("/up/a", LIMIT + 1, large, X_SIGNATURE="right")[0] == "413"
    assert by_wsgi("/plain", LIMIT, large)[0] == "413" and large.taken == 0


def test_a_refusal_has_no_header_that_wsgi_forbids() -> None:
    """PEP 3333 leaves ``Connection`` to the server; wsgiref fails a request for it."""
    heard: list[tuple[str, str]] = []
    environ = {"CONTENT_LENGTH": str(LIMIT), "PATH_INFO": "/plain"}
    list(bodies.bounded(WSGIHandler())(environ, lambda _, headers, *__: heard.extend(headers)))
    assert {name for name, _ in heard} == {"Content-Type", "Content-Length"}


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "1"])
def test_a_limit_is_a_number_of_bytes(limit: Any) -> None:
    with pytest.raises(InvalidOption, match="limit"):
        uploads.streamed(limit=limit)


def test_a_coroutine_is_no_streamed_view() -> None:
    async def view(request: HttpRequest) -> StreamingHttpResponse:
        return StreamingHttpResponse()

    with pytest.raises(InvalidOption, match="view"):
        uploads.streamed(limit=5)(view)  # type: ignore[arg-type]


def test_a_view_may_ask_for_an_api_key() -> None:
    root, weak = Caller(), Caller(permissions=["view_job"])

    def ask(**headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = DjangoClient().put("/keyed", b"x", headers=named)
        return response.status_code, response.content.decode()

    name = f"{root.key.name} ({root.key.prefix})"
    assert ask(Authorization=f"Bearer {root.secret}") == (200, name)
    assert ask(X_API_Key=root.secret)[0] == 200
    assert ask(Authorization=f"Bearer {weak.secret}")[0] == 403
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "sessionid=x"}):
        status, body = ask(**headers)
        assert (status, json.loads(body)["code"]) == (401, "unauthenticated")
