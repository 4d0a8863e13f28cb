"""Bodies without an end and without a login leave nothing behind and cost nothing."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.test import RequestFactory

from jobs import bodies, conf
from jobs.asgi import Handler
from tests.integration.fleet import Fleet
from tests.integration.realtime.site import Site

CHUNK = 64 * 1024
MEGABYTE = 1024 * 1024


class Sender:
    """A client that sends chunks for ever, or so many, and hears what is answered."""

    def __init__(self, chunks: int | None = None, **headers: str) -> None:
        self.chunks, self.sent = chunks, 0
        self.heard: list[Mapping[str, Any]] = []
        self.headers = [(b"host", b"testserver")] + [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ]

    async def receive(self) -> Mapping[str, Any]:
        if self.sent == self.chunks:
            await asyncio.Event().wait()
        self.sent += 1
        if self.chunks is None and self.sent * CHUNK > 64 * MEGABYTE:
            raise AssertionError("it is still read")
        more = self.sent != self.chunks
        return {"type": "http.request", "body": b"x" * CHUNK, "more_body": more}

    async def send(self, message: Mapping[str, Any]) -> None:
        self.heard.append(message)

    def ask(self, path: str = "/api/v1/jobs", application: Any = None) -> int:
        """The status of the answer."""
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
            "query_string": b"", "headers": self.headers, "root_path": "", "scheme": "http",
            "client": ("127.0.0.1", 1), "server": ("testserver", 80), "http_version": "1.1",
        }  # fmt: skip
        serve = application or Handler(1)

        async def asked() -> None:
            async with asyncio.timeout(60):
                await serve(scope, self.receive, self.send)

        asyncio.run(asked())
        return int(self.heard[0]["status"])


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/admin/login/", "/no/such/page"])
def test_an_endless_body_is_read_no_further_than_the_largest_that_is_taken(path: str) -> None:
    sender = Sender(content_type="application/json")

    assert sender.ask(path) == 413

    assert (sender.sent - 1) * CHUNK <= bodies.largest() < 10 * MEGABYTE
    said = json.loads(sender.heard[1]["body"])
    assert (said["status"], said["code"]) == (413, "too-large")
    assert dict(sender.heard[0]["headers"])[b"connection"] == b"close"


def test_a_body_that_says_that_it_is_too_large_is_not_read() -> None:
    sender = Sender(content_length=str(bodies.largest() + 1))

    assert sender.ask() == 413 and sender.sent == 0


@pytest.mark.django_db(transaction=True)
def test_one_that_is_small_enough_is_answered_as_ever() -> None:
    assert Sender(1, content_type="application/json").ask() == 401


def test_views_that_are_coroutines_are_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    async def application(scope: Any, receive: Callable[[], Any], send: Any) -> None:
        while (message := await receive())["type"] == "http.request":
            read.append(len(message["body"]))

    bounded = bodies.bounded_asgi(application, limit=3 * CHUNK)

    assert Sender().ask(application=bounded) == 413
    assert read == [CHUNK] * 3


def test_operations_and_pages_raise_the_bound(settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 7 * MEGABYTE
    assert bodies.largest() == 7 * MEGABYTE
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = None
    from fileproc.api import BODY_LIMIT

    assert bodies.largest() == max(BODY_LIMIT, conf.settings().API_BODY_LIMIT)


@pytest.mark.parametrize(
    ("length", "status"), [("2000", "200"), ("2001", "413"), ("9" * 5000, "413"), ("", "200")]
)
def test_a_wsgi_server_is_told_the_length_first(length: str, status: str) -> None:
    said: list[str] = []

    def application(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b"read"]

    def start(answer: str, headers: Any) -> None:
        said.append(answer)

    environ = {"CONTENT_LENGTH": length}
    told = list(bodies.bounded(application, limit=2000)(environ, start))

    assert said[0].startswith(status) and (told == [b"read"]) == (status == "200")


class Input:
    """What a WSGI server gives an application to read: it has no end."""

    def __init__(self) -> None:
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0 and self.taken + size < 64 * MEGABYTE, "it is still read"
        self.taken += size
        return b" " * size

    readline = read


@pytest.mark.django_db
@pytest.mark.parametrize(("more", "status"), [(None, 401), (0, 401), (1, 413), (10**12, 413)])
def test_django_reads_no_further_by_wsgi(more: int | None, status: int) -> None:
    endless, said = Input(), []
    environ = RequestFactory().post("/api/v1/jobs", content_type="application/json").environ
    length = {} if more is None else {"CONTENT_LENGTH": str(bodies.largest() + more)}
    environ = {k: v for k, v in environ.items() if k != "CONTENT_LENGTH"} | length
    environ["wsgi.input"] = endless

    told = bodies.bounded(WSGIHandler())(environ, lambda answer, *_: said.append(answer))

    assert b"".join(told) and said[0].startswith(str(status))
    assert endless.taken <= (bodies.largest() if more == 0 else 0)


def largest_of_core() -> int:
    """Return the largest body of a server that has no other apps."""
    return max(conf.settings().API_BODY_LIMIT, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


ENOUGH = 60 * MEGABYTE
"""Six times what a server may take."""


class Host:
    """A server that has answered before, and what it has taken since then."""

    def __init__(self, site: Any) -> None:
        self.site, self.process = site, psutil.Process(site.program.pid)
        for _ in range(3):  # imports, threads, and buffers of the size of a body
            self.send(b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n", largest_of_core())
        self.begin()

    def begin(self) -> None:
        self.before, self.most = self.memory(), 0

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.site.port), 10)

    def memory(self) -> int:
        return int(self.process.memory_info().rss)

    def look(self) -> None:
        """Remember the most that it has had at any time."""
        grown = max(self.memory() - self.before, 0)
        self.most = max(self.most, grown, deleted_files(self.process.pid))

    def send(self, head: bytes, length: int) -> None:
        with self.connect() as client:
            client.sendall(head + b"Content-Length: %d\r\n\r\n" % length + b" " * length)
            assert client.recv(12).startswith(b"HTTP/1.")

    def endless(self, head: bytes, part: bytes) -> int:
        """Send it again and again until nobody takes it; return how many bytes that were."""
        sent = 0
        with (
            self.connect() as client,
            suppress(BrokenPipeError, ConnectionResetError, TimeoutError),
        ):
            client.settimeout(5)
            client.sendall(head)
            while sent < ENOUGH:
                client.sendall(part)
                sent += len(part)
                self.look()
        return sent

    def answers(self) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", self.site.port, timeout=10)) as line:
            line.request("GET", "/api/v1/health/live")
            assert line.getresponse().status == 200
        assert deleted_files(self.process.pid) == 0


CHUNKED = (
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
SOCKET = (
    b"GET /ws/events HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
MASK = b"\0\0\0\0"
START = b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\n"
ENDLESS = {
    "a body": (CHUNKED, b"%x\r\n%s\r\n" % (CHUNK, b" " * CHUNK)),
    "a chunk": (CHUNKED + b"fffffffff\r\n", b" " * CHUNK),
    "small chunks": (CHUNKED, b"1\r\n \r\n" * 10_000),
    "words of a chunk": (CHUNKED + b"1;", b"a" * CHUNK),
    "trailers": (CHUNKED + b"0\r\n", b"X-A: b\r\n" * 5000),
    "a path": (b"GET /", b"a" * CHUNK),
    "headers": (START, b"X-A: b\r\n" * 5000),
    "a header": (START + b"X-A: ", b"a" * CHUNK),
    "requests": (b"", b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000),
    "a message": (SOCKET, b"\x02\xff" + CHUNK.to_bytes(8) + MASK + b"a" * CHUNK),
    "parts of a message": (SOCKET + b"\x02\x81" + MASK + b"a", (b"\x00\x81" + MASK + b"a") * 8000),
    "messages": (SOCKET, (b"\x82\xfe\x0f\xff" + MASK + b"a" * 4095) * 16),
    "pings": (SOCKET, (b"\x89\x81" + MASK + b"a") * 8000),
}
READ_FOR_EVER = {"requests", "messages", "pings"}
"""What is answered, or passed over, as it comes."""


@pytest.mark.slow
def test_what_has_no_end_costs_a_server_neither_disk_nor_memory(fleet: Fleet) -> None:
    host = Host(Site(fleet))
    wrong = []
    for name, (head, part) in ENDLESS.items():
        host.begin()

        sent = host.endless(head, part)

        told = f"{name}: {sent / MEGABYTE:.1f} MB sent, {host.most / MEGABYTE:.1f} MB taken"
        print(told)  # noqa: T201 - shown on failure
        if host.most >= 10 * MEGABYTE or (sent >= 20 * MEGABYTE and name not in READ_FOR_EVER):
            wrong.append(told)
        host.answers()
    assert wrong == []


@pytest.mark.slow
def test_slow_bodies_on_many_connections_cost_little_each(fleet: Fleet) -> None:
    """Each sends a byte at a time, and none of them is ever whole."""
    host, count = Host(Site(fleet)), 200
    with ExitStack() as stack:
        clients = [stack.enter_context(host.connect()) for _ in range(count)]
        for client in clients:
            client.sendall(CHUNKED)
        for _ in range(50):
            for client in clients:
                client.sendall(b"1\r\n \r\n")
            host.look()
        host.answers()
        host.look()
    print(f"{host.most} bytes taken")  # noqa: T201 - shown on failure
    assert host.most < 10 * MEGABYTE * count / 20, "half a megabyte for each"


@pytest.mark.slow
def test_bodies_that_are_almost_whole_cost_what_they_have(fleet: Fleet) -> None:
    """Each of some connections stops one byte before the end of the largest body."""
    host, count, size = Host(Site(fleet)), 10, largest_of_core()
    with ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(host.connect())
            head = CHUNKED.replace(b"Transfer-Encoding: chunked", b"Content-Length: %d" % size)
            client.sendall(head + b" " * (size - 1))
            host.look()
            host.look()
    print(f"{host.most} bytes taken")  # noqa: T201 - shown on failure
    assert host.most < 10 * MEGABYTE * count


def deleted_files(pid: int) -> int:
    """Bytes in files that have no name and are open."""
    size = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            path = f"/proc/{pid}/fd/{name}"
            if "(deleted)" in os.readlink(path):
                size += os.stat(path).st_size
    return size
