"""A call can be ended from another thread, and at once."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from jobs import http
from tests.http.servers import Reply, World, answer
from tests.wait import wait_until

HANGS = 60


def silent(line: socket.socket, closing: threading.Event) -> None:
    closing.wait(HANGS)


def half(line: socket.socket, closing: threading.Event) -> None:
    """An answer whose end is the end of the line."""
    line.sendall(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
    closing.wait(HANGS)


def aborted(client: http.Client, url: str, reached: Any) -> http.HttpError:
    """What a call raises that is aborted when the condition has come true."""
    raised: list[http.HttpError] = []

    def call() -> None:
        try:
            client.post(url, content=b"order")
        except http.HttpError as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    wait_until(reached)
    client.abort()
    thread.join(HANGS / 2)
    assert not thread.is_alive()
    return raised[0]


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("reply", [silent, half])
def test_a_call_under_way_ends_at_once(world: World, scheme: str, reply: Reply) -> None:
    server = world.secure if scheme == "https" else world.plain
    server.replies["/"] = reply
    with http.client(**world.options, total=HANGS, step=HANGS) as client:
        url = f"{scheme}://api.example.com/"
        error = aborted(client, url, lambda: server.seen)
        assert isinstance(error, http.Unreachable) and error.sent
        with pytest.raises(http.Unreachable, match="aborted") as later:
            client.get(url)
        assert not later.value.sent


def test_a_handshake_ends_at_once(world: World) -> None:
    """TLS with somebody who says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        world.secure.port, port = door.getsockname()[1], world.secure.port
        accepted: list[socket.socket] = []
        taking = threading.Thread(target=lambda: accepted.append(door.accept()[0]))
        taking.start()
        with http.client(**world.options, total=HANGS, connect=HANGS, step=HANGS) as client:
            error = aborted(client, "https://api.example.com/", lambda: accepted)
        assert not error.sent
        taking.join()
        accepted[0].close()
        world.secure.port = port


def test_an_abort_without_a_call_ends_what_is_kept_open(world: World) -> None:
    world.plain.replies["/"] = answer(b"fine")
    with http.client(**world.options) as client:
        assert client.get("http://api.example.com/").content == b"fine"
        client.abort()
        client.abort()
        with pytest.raises(http.Unreachable):
            client.get("http://api.example.com/")
    assert len(world.plain.seen) == 1
