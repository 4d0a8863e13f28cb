"""Redis elsewhere, and a network between that fails in the ways that networks do."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.test import override_settings

from jobs.api import throttle
from jobs.engine import rq

Mode = Literal["up", "hole", "refuse"]


@contextmanager
def redis_at(url: str = "", **described: Any) -> Iterator[None]:
    """This process's Redis is the one at the URL, or what RQ_QUEUES says otherwise of it."""
    found = dict(described)
    if url:
        found["URL"] = url
    try:
        with override_settings(RQ_QUEUES={"default": found}):
            rq.forget_clients()
            yield
            rq.forget_clients()
    finally:
        rq.forget_clients()


def forget_counts() -> None:
    """Nobody has asked the API for anything yet."""
    throttle._alone.clear()
    for key in rq.client().scan_iter("jobs:*:count:*", count=1000):
        rq.client().delete(key)


def listening(address: str = "127.0.0.1") -> socket.socket:
    """A server's socket at a free port."""
    server = socket.create_server((address, 0))
    server.settimeout(0.1)
    return server


class Proxy:
    """Passes bytes on between clients and a server, until told otherwise.

    In a ``hole`` everything is accepted and nothing comes through in either direction, also on
    connections that were there before: what a client sees of a network that is cut, or of a server
    that has been stopped. Afterwards they are broken. With ``refuse`` connections are reset. Bytes
    take ``delay`` seconds each way.
    """

    def __init__(self, url: str = "") -> None:
        self._target = urlsplit(url or settings.RQ_QUEUES["default"]["URL"])
        self._server = listening()
        self._mode: Mode = "up"
        self.delay = 0.0
        self._over = threading.Event()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        found: int = self._server.getsockname()[1]
        return found

    @property
    def url(self) -> str:
        """Of the server, by way of this proxy."""
        who, at, _ = self._target.netloc.rpartition("@")
        db = "/0" if self._target.scheme == "unix" else self._target.path
        return f"redis://{who}{at}127.0.0.1:{self.port}{db}?{self._target.query}"

    def set(self, mode: Mode) -> None:
        was, self._mode = self._mode, mode
        if mode == "refuse" or was == "hole":
            for pair in list(self._pairs):
                for end in pair:
                    reset(end)

    def close(self) -> None:
        self._over.set()
        self.set("refuse")
        self._server.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError, OSError):
                client, _ = self._server.accept()
                self.accepted += 1
                if self._mode == "refuse":
                    reset(client)
                    client.close()
                else:
                    threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = self._connect()
        except OSError:
            reset(client)
            client.close()
            return
        pair = client, server
        self._pairs.add(pair)
        with contextlib.closing(client), contextlib.closing(server), suppress(OSError, ValueError):
            self._pump(client, server)
        self._pairs.discard(pair)

    def _connect(self) -> socket.socket:
        if self._target.scheme != "unix":
            host, port = self._target.hostname or "localhost", self._target.port or 6379
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(unquote(self._target.path))
        return server

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        others = {client: server, server: client}
        under_way: deque[tuple[float, socket.socket, bytes]] = deque()
        with selectors.DefaultSelector() as selector:
            for either in others:
                selector.register(either, selectors.EVENT_READ)
            while True:
                due = under_way[0][0] - time.monotonic() if under_way else 0.5
                for key, _ in selector.select(max(0.0, due)):
                    end: Any = key.fileobj
                    if not (data := end.recv(1 << 16)):
                        return
                    if self._mode != "hole":
                        under_way.append((time.monotonic() + self.delay, others[end], data))
                while under_way and under_way[0][0] <= time.monotonic():
                    _, other, data = under_way.popleft()
                    other.sendall(data)


def reset(end: socket.socket) -> None:
    """The other side of the connection sees it reset."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def silent() -> Iterator[int]:
    """The port of a server that accepts connections and says nothing."""
    server = listening()
    taken: list[socket.socket] = []
    over = threading.Event()

    def accept() -> None:
        while not over.is_set():
            with suppress(TimeoutError, OSError):
                taken.append(server.accept()[0])

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        over.set()
        thread.join()
        for one in (server, *taken):
            one.close()


def seconds(act: Callable[[], object], times: int = 3, before: Callable[[], object] = int) -> float:
    """How long ``act`` takes at best: a busy machine may slow it down, nothing makes it faster."""
    taken = []
    for _ in range(times):
        before()
        began = time.monotonic()
        with suppress(Exception):
            act()
        taken.append(time.monotonic() - began)
    return min(taken)
