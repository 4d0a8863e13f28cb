"""A body of a gigabyte that nobody has signed costs neither disk nor memory, at any address."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import pytest

from jobs.blobs import LocalStore
from tests.attack.test_bodies import CHUNK, MEGABYTE, Host, deleted_files
from tests.integration.fleet import Fleet, Program
from tests.integration.realtime.site import Site
from tests.jobs.ports import free_port
from tests.wait import wait_until

pytestmark = pytest.mark.slow
GIGABYTE = 1024 * MEGABYTE
MOST = 10 * MEGABYTE
WSGI = """
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from config.wsgi import application

class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    def handle_error(self, request, address): pass

class Quiet(WSGIRequestHandler):
    def log_message(self, *_): pass

server = Server(("127.0.0.1", int(sys.argv[1])), Quiet)
server.set_app(application)
server.serve_forever()
"""


@dataclass
class Store:
    """The folders that a server may write to, and addresses of its blobs."""

    folder: Path
    jobs: dict[str, Any] = field(init=False)
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        (self.folder / "tmp").mkdir()
        self.jobs = {"BLOBS": {"STORE": "local", "ROOT": str(self.folder / "blobs")}}
        self.env = {"TMPDIR": str(self.folder / "tmp"), "HTTPS": "off"}

    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]

    def address(self, key: str, size: int) -> str:
        return LocalStore(self.folder).put_url(key, size=size).url


@pytest.fixture
def store(tmp_path: Path, settings: Any) -> Store:
    settings.SECRET_KEY = "of-a-fleet"
    return Store(tmp_path)


class Wsgi:
    """The pages by a WSGI server, as the standard library has one."""

    def __init__(self, fleet: Fleet, store: Store) -> None:
        self.port = free_port()
        script = store.folder.parent / f"{store.folder.name}-wsgi.py"
        script.write_text(WSGI)
        env = {**store.env, "PYTHONPATH": str(Path(__file__).parents[2])}
        self.program: Program = fleet.program(
            "wsgi", str(script), str(self.port), jobs=store.jobs, env=env
        )
        wait_until(self._answers, 30, message="the server answers")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False


Begin = Callable[[], Host]


@pytest.fixture(params=["asgi", "wsgi"])
def begin(request: pytest.FixtureRequest, fleet: Fleet, store: Store) -> Iterator[Begin]:
    def started() -> Host:
        if request.param == "asgi":
            return Host(Site(fleet, store.jobs, store.env))
        return Host(Wsgi(fleet, store))

    yield started


def head(address: str, length: int, method: str = "PUT", more: str = "") -> bytes:
    return (
        f"{method} {address} HTTP/1.1\r\nHost: localhost\r\n{more}"
        f"Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def send(host: Host, start: bytes, size: int, *, is_hasty: bool = False) -> tuple[int, bytes]:
    """Return how many bytes of the body were taken, and the status line of the answer."""
    part, sent = b"x" * CHUNK, 0
    with host.connect() as client:
        client.settimeout(30)
        client.sendall(start)
        with suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
            while sent < size:
                client.sendall(part[: size - sent])
                sent += min(CHUNK, size - sent)
                if sent % MEGABYTE == 0:
                    host.look()
        if is_hasty:
            return sent, b""
        with suppress(ConnectionResetError):
            return sent, client.recv(CHUNK).partition(b"\r\n")[0]
    return sent, b""


def receive(host: Host, url: SplitResult) -> int:
    """Return how many bytes a download has."""
    received = 0
    with closing(HTTPConnection("127.0.0.1", host.site.port, timeout=30)) as line:
        line.request("GET", f"{url.path}?{url.query}")
        answer = line.getresponse()
        assert answer.status == 200
        while piece := answer.read(MEGABYTE):
            received += len(piece)
            host.look()
    return received


def test_an_unsigned_gigabyte_costs_nothing(begin: Begin, store: Store) -> None:
    host = begin()
    signed = store.address("a", GIGABYTE)
    start = {
        "an operation": head("/api/v1/jobs", GIGABYTE, "POST"),
        "a form": head("/admin/login/", GIGABYTE, "POST"),
        "no page": head("/no/such/page", GIGABYTE),
        "a blob": head("/blobs/a", GIGABYTE),
        "a forged signature": head(signed[:-4] + "0000", GIGABYTE),
        "another method": head(signed, GIGABYTE, "POST"),
        "another key": head(signed.replace("/a?", "/b?"), GIGABYTE),
        "another length": head(signed, GIGABYTE - 1),
        "more than any": head(signed, 1024 * GIGABYTE),
        "a download": head(f"/blobs/a?{urlsplit(signed).query}", GIGABYTE, "GET"),
    }
    wrong = []
    for name, first in start.items():
        host.begin()
        sent, answer = send(host, first, GIGABYTE)
        line = f"{name}: {sent} bytes sent, {host.most} bytes taken, {answer!r}"
        print(line)  # noqa: T201 - shown on failure
        # A client that goes on sending may find the connection closed before it reads the answer.
        if host.most >= MOST or sent >= 20 * MEGABYTE or answer[9:12] not in (
            b"", b"400", b"403", b"404", b"405", b"413",
        ):  # fmt: skip
            wrong.append(line)
        if store.files():
            wrong.append(f"{name} left {store.files()}")
    assert wrong == []
    host.answers()


def test_a_signed_body_is_streamed(begin: Begin, store: Store) -> None:
    host, size = begin(), 100 * MEGABYTE
    sent, answer = send(host, head(store.address("a", size), size), size)
    assert (sent, answer[9:12]) == (size, b"200")
    assert host.most < MOST
    [made] = store.files()
    assert made.stat().st_size == size
    assert receive(host, urlsplit(LocalStore(store.folder).get_url("a"))) == size
    assert host.most < MOST
    shutil.rmtree(store.folder / "blobs")


def test_a_signed_body_that_ends_early_leaves_nothing(begin: Begin, store: Store) -> None:
    host, size = begin(), 100 * MEGABYTE
    for n in range(3):
        sent, _ = send(host, head(store.address(f"a{n}", size), size), 20 * MEGABYTE, is_hasty=True)
        assert sent == 20 * MEGABYTE
    wait_until(lambda: store.files() == [], 30, message="nothing is left")
    assert deleted_files(host.process.pid) == 0 and host.most < MOST
    host.answers()


def test_uploads_that_crawl_keep_nobody_waiting(fleet: Fleet, store: Store) -> None:
    """They have threads of their own: pages are answered meanwhile."""
    host, size, clients = Host(Site(fleet, store.jobs, store.env)), 100 * MEGABYTE, []
    try:
        for n in range(30):
            client = host.connect()
            clients.append(client)
            client.sendall(head(store.address(f"a{n}", size), size) + b"x")
        host.answers()
        host.look()
        assert host.most < 30 * MEGABYTE / 2
    finally:
        for client in clients:
            client.close()
    wait_until(lambda: store.files() == [], 60, message="nothing is left")
