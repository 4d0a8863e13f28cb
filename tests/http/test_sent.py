"""Whether a request can have reached anybody, which its error says."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from jobs import http, traffic
from jobs.http import transport
from tests.http.conftest import Send
from tests.http.servers import PUBLIC, Reply, World, answer, redirect

URL = "http://api.example.com/"
SECURE = "https://api.example.com/"


def failed(send: Send, url: str = URL, **options: Any) -> http.HttpError:
    with traffic.watching() as seen, pytest.raises(http.HttpError) as caught:
        send("POST", url, content=b"order", **options)
    assert caught.value.sent == seen.sent
    return caught.value


@pytest.mark.parametrize("answers", [["10.0.0.1"], ["169.254.169.254"], []])
def test_a_blocked_address_has_not_heard_of_it(
    send: Send, world: World, answers: list[str]
) -> None:
    world.answers["api.example.com"] = [answers]
    assert not failed(send).sent


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "http://127.0.0.1/", "http://a b/", "http://"]
)
def test_a_call_that_is_not_made_has_sent_nothing(send: Send, url: str) -> None:
    assert not failed(send, url).sent
    with pytest.raises(http.Blocked) as caught:
        http.check(url)
    assert not caught.value.sent


def test_a_name_that_is_not_found_has_not_heard_of_it(send: Send, world: World) -> None:
    del world.answers["api.example.com"]
    assert not failed(send).sent


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(111, "refused"), TimeoutError(), OSError(113, "no route")]
)
def test_a_connection_that_is_not_made_has_sent_nothing(
    send: Send, world: World, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def fail(address: Any, port: int) -> Any:
        raise error

    monkeypatch.setattr(world, "place", fail)
    assert not failed(send).sent


def test_tls_that_fails_has_sent_nothing(send: Send, world: World) -> None:
    world.answers["evil.example.org"] = [[PUBLIC]]
    assert not failed(send, "https://evil.example.org/").sent
    assert world.secure.seen == []


def test_tls_that_is_silent_has_sent_nothing(send: Send, world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        world.secure.port, port = deaf.getsockname()[1], world.secure.port
        try:
            assert not failed(send, SECURE, connect=0.3).sent
        finally:
            world.secure.port = port


def test_a_pool_without_a_free_connection_has_sent_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(transport._POOL, "max_connections", 1)
    with http.client(**world.options) as client:
        world.plain.replies["/"] = answer(b"x" * 5000)
        with client.stream("GET", URL), pytest.raises(http.TooSlow) as caught:
            client.get(URL, timeout=http.Timeout(5, pool=0.2))
        assert not caught.value.sent


def cut(line: socket.socket, closing: threading.Event) -> None:
    line.close()


def silent(line: socket.socket, closing: threading.Event) -> None:
    closing.wait(20)


@pytest.mark.parametrize("reply", [cut, silent, b"nonsense\r\n\r\n", answer(b"x" * 2000)[:500]])
@pytest.mark.parametrize("is_secure", [False, True])
def test_a_lost_answer_may_have_been_heard(
    send: Send, world: World, reply: Reply, is_secure: bool
) -> None:
    (world.secure if is_secure else world.plain).replies["/"] = reply
    assert failed(send, SECURE if is_secure else URL, total=5, step=0.5).sent


def test_an_answer_that_is_too_large_was_asked_for(send: Send, world: World) -> None:
    world.plain.replies["/"] = answer(b"x" * 2000)
    assert failed(send, max_bytes=1000).sent


def test_after_a_redirect_the_first_request_was_sent(send: Send, world: World) -> None:
    world.plain.replies["/"] = redirect("http://10.0.0.1/", "303 See Other")
    assert failed(send, redirects=1).sent


def test_a_connection_that_is_used_again_counts_each_call(world: World) -> None:
    world.plain.replies["/"] = answer(b"hello")
    with http.client(**world.options) as client:
        client.get(URL)
        del world.answers["api.example.com"]
        with pytest.raises(http.HttpError) as caught:
            client.get("https://api.example.com/")
        assert not caught.value.sent
