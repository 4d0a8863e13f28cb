"""The name is resolved once, and the connection goes to an address that was judged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from jobs import http
from jobs.http.transport import default_context
from tests.http.conftest import Send
from tests.http.servers import OTHER, PEM, PUBLIC, World, answer


def test_the_connection_goes_to_the_address_that_was_judged(send: Send, world: World) -> None:
    world.answers["api.example.com"] = [[PUBLIC], ["127.0.0.1"]]
    world.plain.replies["/"] = answer(b"hello")
    assert send("GET", "http://api.example.com/").text == "hello"
    assert world.asked == ["api.example.com"]
    assert world.dialed == [(PUBLIC, 80)]
    assert world.plain.headers()["host"] == "api.example.com"


def test_a_second_connection_is_judged_anew(world: World) -> None:
    world.answers["api.example.com"] = [[PUBLIC], ["127.0.0.1"]]
    world.plain.replies["/"] = answer(b"hello", Connection="close")
    with http.client(**world.options) as client:
        assert client.get("http://api.example.com/").text == "hello"
        with pytest.raises(http.Blocked):
            client.get("http://api.example.com/")
    assert world.dialed == [(PUBLIC, 80)]
    assert world.plain.accepted == 1


def test_a_kept_connection_is_used_again(world: World) -> None:
    world.plain.replies["/"] = answer(b"hello")
    with http.client(**world.options) as client:
        for _ in range(3):
            assert client.get("http://api.example.com/").text == "hello"
    assert (len(world.asked), len(world.dialed), len(world.plain.seen)) == (1, 1, 3)


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        [PUBLIC, "127.0.0.1"],
        ["169.254.169.254", PUBLIC],
        [PUBLIC, "::ffff:10.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["fe80::1%eth0"],
        [PUBLIC, "2130706433"],
        [PUBLIC, ""],
    ],
)
def test_one_bad_answer_blocks_them_all(send: Send, world: World, answers: list[str]) -> None:
    world.answers["api.example.com"] = [answers]
    with pytest.raises(http.Blocked) as caught:
        send("GET", "https://api.example.com/")
    assert str(caught.value) == "api.example.com cannot be reached"
    assert "not public" in caught.value.detail
    assert world.dialed == []


def test_the_next_address_is_tried(
    send: Send, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = world.place

    def flaky(address: Any, port: int) -> Any:
        found = place(address, port)
        if str(address) == PUBLIC:
            raise ConnectionRefusedError
        return found

    monkeypatch.setattr(world, "place", flaky)
    world.answers["api.example.com"] = [[PUBLIC, OTHER]]
    world.plain.replies["/"] = answer(b"hello")
    assert send("GET", "http://api.example.com/").text == "hello"
    assert world.dialed == [(PUBLIC, 80), (OTHER, 80)]


def test_the_name_is_kept_for_tls_and_host(send: Send, world: World) -> None:
    world.secure.replies["/"] = answer(b"hello")
    assert send("GET", "https://api.example.com/").text == "hello"
    assert world.dialed == [(PUBLIC, 443)]
    assert world.secure.names == ["api.example.com"]
    assert world.secure.headers()["host"] == "api.example.com"


def test_a_certificate_of_another_name_is_refused(send: Send, world: World) -> None:
    world.answers["evil.example.org"] = [[PUBLIC]]
    with pytest.raises(http.Unreachable) as caught:
        send("GET", "https://evil.example.org/")
    assert str(caught.value) == "evil.example.org cannot be reached"
    assert "certificate" in caught.value.detail.lower()
    assert world.secure.seen == []


def test_an_unknown_authority_is_refused(world: World) -> None:
    with http.client(resolver=world.resolve) as client, pytest.raises(http.Unreachable):
        client.get("https://api.example.com/")
    assert world.secure.seen == []


def test_failures_before_the_connection_read_alike(
    send: Send, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, place, texts = "http://api.example.com/", world.place, set()

    def failing(error: OSError) -> Any:
        def fail(address: Any, port: int) -> Any:
            place(address, port)
            raise error

        return fail

    for answers in (["10.0.0.1"], ["169.254.169.254"], []):
        world.answers["api.example.com"] = [answers]
        with pytest.raises(http.HttpError) as caught:
            send("GET", url)
        texts.add(str(caught.value))
    world.answers["api.example.com"] = [[PUBLIC]]
    errors = (ConnectionRefusedError(111, "refused"), TimeoutError(), OSError(113, "no route"))
    for error in errors:
        monkeypatch.setattr(world, "place", failing(error))
        with pytest.raises(http.HttpError) as caught:
            send("GET", url)
        texts.add(str(caught.value))
        assert caught.value.__suppress_context__
    del world.answers["api.example.com"]
    with pytest.raises(http.Unreachable) as caught:
        send("GET", url)
    assert texts | {str(caught.value)} == {"api.example.com cannot be reached"}


def test_a_resolver_that_hangs_is_given_up(send: Send) -> None:
    release = threading.Event()

    def hang(host: str) -> list[str]:
        release.wait(20)
        return [PUBLIC]

    timer = threading.Timer(10, release.set)
    timer.start()
    try:
        with pytest.raises(http.TooSlow, match=r"api\.example\.com cannot be reached"):
            send("GET", "http://api.example.com/", resolver=hang, total=0.2)
        assert not release.is_set()
    finally:
        timer.cancel()
        release.set()


def test_many_resolvers_that_hang_keep_nobody_waiting(world: World) -> None:
    release = threading.Event()

    def hang(host: str) -> list[str]:
        if host.startswith("slow"):
            release.wait(20)
        return [PUBLIC]

    async def run() -> str:
        async with http.async_client(resolver=hang, total=15) as client:
            slow = [
                asyncio.create_task(client.get(f"http://slow{n}.example.com/")) for n in range(45)
            ]
            await asyncio.sleep(0)
            try:
                return (await client.get("http://api.example.com/")).text
            finally:
                for task in slow:
                    task.cancel()
                await asyncio.gather(*slow, return_exceptions=True)
                release.set()

    world.plain.replies["/"] = answer(b"hello")
    assert asyncio.run(run()) == "hello"


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"])
def test_the_environment_names_no_proxy(
    send: Send, world: World, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in (variable, variable.lower()):
        monkeypatch.setenv(name, "http://10.0.0.1:3128")
    world.secure.replies["/"] = world.plain.replies["/"] = answer(b"hello")
    for scheme in ("http", "https"):
        assert send("GET", f"{scheme}://api.example.com/").text == "hello"
    assert {address for address, _ in world.dialed} == {PUBLIC}


def test_the_environment_names_no_authority(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.secure.replies["/"] = answer(b"hello")
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    monkeypatch.setenv("SSL_CERT_DIR", str(PEM.parent))
    default_context.cache_clear()
    try:
        with pytest.raises(http.Unreachable):
            http.get("https://api.example.com/", resolver=world.resolve)
    finally:
        default_context.cache_clear()
    assert http.get("https://api.example.com/", **world.options).text == "hello"


def test_loopback_is_reached_where_it_is_opened(settings: Any, world: World) -> None:
    settings.JOBS = {"HTTP_ALLOW": ["127.0.0.0/8", "localhost"]}
    world.plain.replies["/"] = answer(b"hello")
    url = f"http://127.0.0.1:{world.plain.port}/"
    assert http.get(url).text == "hello"
    world.answers["localhost"] = [["127.0.0.1"]]
    named = f"http://localhost:{world.plain.port}/"
    assert http.get(named, resolver=world.resolve).text == "hello"
    settings.JOBS = {}
    for blocked in (url, named):
        with pytest.raises(http.Blocked):
            http.get(blocked)


def test_a_program_that_connects_by_itself_learns_permitted_addresses_only() -> None:
    def answering(*addresses: str) -> Callable[[str], list[str]]:
        return lambda host: list(addresses)

    url = "https://api.example.com/path"
    assert http.resolve(url, answering("93.184.216.34")) == ["93.184.216.34"]
    assert http.resolve("http://93.184.216.34/") == ["93.184.216.34"]
    for bad in (["10.0.0.1"], ["93.184.216.34", "127.0.0.1"]):
        with pytest.raises(http.Blocked):
            http.resolve(url, answering(*bad))
    with pytest.raises(http.Blocked):
        http.resolve("ftp://api.example.com/", answering("93.184.216.34"))
    with pytest.raises(http.Unreachable):
        http.resolve(url, answering())
