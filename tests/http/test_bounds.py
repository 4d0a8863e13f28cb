"""Every call has an end, and every answer a size."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import zlib

import pytest

from jobs import http
from jobs.http.bodies import PIECE, Body
from tests.http.conftest import Send
from tests.http.servers import Reply, World, answer, drip

URL = "http://api.example.com/"
MIB = 1024 * 1024


def chunked(body: bytes, **headers: str) -> bytes:
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    start = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{head}\r\n".encode()
    return start + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


# ---- size


SIZED: list[tuple[bytes, bool]] = [
    (answer(b"x" * 1000), True),
    (answer(b"x" * 1001), False),
    (chunked(b"x" * 1000), True),
    (chunked(b"x" * 1001), False),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", False),
    (answer(gzip.compress(b"x" * 1000), Content_Encoding="gzip"), True),
    (answer(gzip.compress(b"x" * 1001), Content_Encoding="gzip"), False),
    (chunked(gzip.compress(b"x" * 1001), Content_Encoding="GZip"), False),
    (answer(zlib.compress(b"x" * 1000), Content_Encoding="deflate"), True),
    (answer(zlib.compress(b"x" * 1001), Content_Encoding="deflate"), False),
    (answer(zlib.compress(b"x" * 1000)[2:-4], Content_Encoding="deflate"), True),
    (answer(gzip.compress(b"x" * MIB * 20), Content_Encoding="gzip"), False),
]


@pytest.mark.parametrize(("reply", "fits"), SIZED, ids=range(len(SIZED)))
def test_an_answer_has_a_size(send: Send, world: World, reply: bytes, fits: bool) -> None:
    world.plain.replies["/"] = reply
    if fits:
        assert send("GET", URL, max_bytes=1000).content == b"x" * 1000
    else:
        with pytest.raises(http.TooLarge, match="more than 1000 bytes"):
            send("GET", URL, max_bytes=1000)


def test_a_bomb_is_unpacked_in_small_pieces() -> None:
    bomb = gzip.compress(bytes(64 * MIB))
    assert len(bomb) * 900 < 64 * MIB
    body, sizes = Body("example.com", "gzip", 8 * MIB), []
    with pytest.raises(http.TooLarge):
        for piece in body.feed(bomb):
            sizes.append(len(piece))
    assert max(sizes) <= PIECE
    assert 8 * MIB - PIECE <= sum(sizes) <= 8 * MIB


def test_what_is_unpacked_is_whole() -> None:
    plain = bytes(range(256)) * 4096
    packed = gzip.compress(plain)
    for size in (1, 1000, len(packed)):
        body = Body("example.com", "gzip", 2 * MIB)
        parts = [packed[i : i + size] for i in range(0, len(packed), size)]
        assert b"".join(piece for part in parts for piece in body.feed(part)) == plain
        body.finish()


IMPROPER = [
    answer(b"no gzip at all", Content_Encoding="gzip"),
    answer(gzip.compress(b"x" * 100)[:-9], Content_Encoding="gzip"),
    answer(b"\xff\xff\xff", Content_Encoding="deflate"),
    answer(b"x", Content_Encoding="br"),
    answer(b"x", Content_Encoding="zstd"),
    answer(gzip.compress(gzip.compress(b"x")), Content_Encoding="gzip, gzip"),
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"HTTP/1.1 999999 Hm\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
    b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: https://[::1\r\n\r\n",
    b"",
]


@pytest.mark.parametrize("reply", IMPROPER, ids=range(len(IMPROPER)))
def test_an_improper_answer_is_one_of_the_family(send: Send, world: World, reply: bytes) -> None:
    def send_and_hang_up(line: socket.socket, closing: threading.Event) -> None:
        line.sendall(reply)

    world.plain.replies["/"] = send_and_hang_up
    with pytest.raises(http.Unreachable, match="no proper answer"):
        send("GET", URL)


def test_only_what_can_be_unpacked_safely_is_asked_for(send: Send, world: World) -> None:
    world.plain.replies["/"] = answer()
    send("GET", URL)
    assert world.plain.headers()["accept-encoding"] == "gzip, deflate"


def test_a_head_tells_the_size_of_what_it_does_not_send(send: Send, world: World) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\nContent-Encoding: gzip\r\n\r\n"
    world.plain.replies["/"] = head
    got = send("HEAD", URL, max_bytes=10)
    assert (got.content, got.headers["content-length"]) == (b"", "5000000")


# ---- time


def never(line: socket.socket, closing: threading.Event) -> None:
    closing.wait(20)


@pytest.mark.parametrize(
    "reply",
    [
        never,
        drip(answer(b"x" * 2000)),
        drip(b"HTTP/1.1 200 OK\r\n" + b"X-Header: x\r\n" * 500),
        drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 500),
        lambda line, closing: drip(chunked(b"x" * 2000)[60:])(  # type: ignore[operator]
            line, line.sendall(chunked(b"x" * 2000)[:60]) or closing
        ),
    ],
    ids=["silent", "body", "headers", "continue", "chunks"],
)
def test_a_slow_answer_is_given_up(send: Send, world: World, reply: Reply) -> None:
    world.plain.replies["/"] = reply
    begun = time.monotonic()
    with pytest.raises(http.TooSlow):
        send("GET", URL, total=0.5, step=0.3 if reply is never else 0.4)
    assert time.monotonic() - begun < 10


def test_one_step_has_an_end_of_its_own(send: Send, world: World) -> None:
    world.plain.replies["/"] = never
    begun = time.monotonic()
    with pytest.raises(http.TooSlow):
        send("GET", URL, total=15, step=0.2)
    assert time.monotonic() - begun < 10


def test_one_call_may_have_shorter_steps(send: Send, world: World) -> None:
    world.plain.replies["/"] = never
    begun = time.monotonic()
    with pytest.raises(http.TooSlow):
        send("GET", URL, total=15, timeout=0.2)
    assert time.monotonic() - begun < 10


def test_no_timeout_is_the_total(send: Send, world: World) -> None:
    world.plain.replies["/"] = never
    with pytest.raises(http.TooSlow):
        send("GET", URL, total=0.3, timeout=None)


def test_a_server_that_does_not_listen_is_given_up(send: Send, world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        world.plain.port, port = deaf.getsockname()[1], world.plain.port
        try:
            with pytest.raises(http.TooSlow):
                send("POST", URL, content=b"x" * 64 * MIB, total=0.5)
        finally:
            world.plain.port = port


def test_a_server_that_never_shakes_hands_is_given_up(send: Send, world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        world.secure.port, port = deaf.getsockname()[1], world.secure.port
        try:
            with pytest.raises(http.TooSlow, match=r"api\.example\.com cannot be reached"):
                send("GET", "https://api.example.com/", connect=0.3)
        finally:
            world.secure.port = port


def test_a_client_has_time_anew_for_every_call(world: World) -> None:
    world.plain.replies |= {"/": answer(b"hello"), "/slow": never}
    with http.client(**world.options, total=0.4) as client:
        request = client.build_request("GET", URL)
        with pytest.raises(http.TooSlow):
            client.get(URL + "slow")
        assert client.send(request).text == "hello"
        with pytest.raises(http.TooSlow):
            client.get(URL + "slow")
        assert client.send(request).text == "hello"


def test_a_stream_is_bounded_too(world: World) -> None:
    world.plain.replies |= {"/": answer(b"x" * 5000), "/slow": drip(answer(b"x" * 5000))}
    with http.client(**world.options, total=0.5, max_bytes=6000) as client:
        with client.stream("GET", URL) as got:
            assert b"".join(got.iter_bytes()) == b"x" * 5000
        with pytest.raises(http.TooSlow), client.stream("GET", URL + "slow") as got:
            got.read()
    with (
        http.client(**world.options, max_bytes=4999) as client,
        pytest.raises(http.TooLarge),
        client.stream("GET", URL) as got,
    ):
        got.read()


def test_a_call_that_was_given_up_leaves_nothing_in_the_pool(world: World) -> None:
    world.plain.replies |= {"/": answer(b"hello"), "/large": answer(b"x" * 5000)}
    with http.client(**world.options, max_bytes=1000) as client:
        for _ in range(3):
            with pytest.raises(http.TooLarge):
                client.get(URL + "large")
        assert client.get(URL).text == "hello"
        assert len(client._transport._pool.connections) == 1  # type: ignore[attr-defined]
