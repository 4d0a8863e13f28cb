"""The clients themselves: what they send, keep and refuse."""

from __future__ import annotations

import inspect
import logging
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobs import checks, http
from jobs.errors import InvalidOption, JobsError
from tests.http.conftest import Send
from tests.http.servers import PUBLIC, World, answer

URL = "https://api.example.com/"


def test_a_body_goes_out_as_it_is(send: Send, world: World) -> None:
    world.secure.replies["/"] = answer(b'{"ok": true}', "201 Created")
    got = send("POST", URL, content=b"\x00\xff", headers={"X-Signature": "sha256=1"})
    assert (got.status_code, got.json()) == (201, {"ok": True})
    assert world.secure.seen[0].endswith(b"\r\n\r\n\x00\xff")
    assert world.secure.headers()["x-signature"] == "sha256=1"
    assert world.secure.headers()["user-agent"] == "django-jobdesk"


def test_a_header_of_ours_may_be_replaced(send: Send, world: World) -> None:
    world.secure.replies["/"] = answer(b"", "200 Fine")
    got = send("GET", URL, headers={"user-agent": "theirs"})
    assert world.secure.seen[0].lower().count(b"user-agent:") == 1
    assert world.secure.headers()["user-agent"] == "theirs"
    assert (got.reason_phrase, got.http_version) == ("Fine", "HTTP/1.1")
    assert "network_stream" not in got.extensions


def test_one_call_needs_no_client(world: World) -> None:
    world.secure.replies |= {"/": answer(b"hello"), "/?a=1": answer(b"asked")}
    assert http.get(URL, **world.options).text == "hello"
    assert http.get(URL, params={"a": 1}, **world.options).text == "asked"
    assert http.post(URL, json={"a": 1}, **world.options).text == "hello"
    assert world.secure.seen[-1].endswith(b'{"a":1}')
    assert http.request("PUT", URL, content="x", **world.options).text == "hello"


def test_a_client_has_a_base(world: World) -> None:
    world.secure.replies |= {"/v1/items:batch?to=http://x": answer(b"hello")}
    options = {**world.options, "base_url": URL + "v1"}
    with http.client(**options) as client:
        assert client.get("/items:batch?to=http://x").text == "hello"
        with pytest.raises(http.Blocked):
            client.get("http://127.0.0.1/")
    with pytest.raises(http.Blocked):
        http.client(base_url="http://127.0.0.1/")


def test_no_cookie_is_kept(world: World) -> None:
    world.secure.replies["/"] = answer(b"", Set_Cookie="id=1; Path=/")
    with http.client(**world.options) as client:
        client.get(URL)
        client.get(URL)
        assert list(client.cookies.jar) == []
    assert "cookie" not in world.secure.headers()


@pytest.mark.parametrize(
    ("method", "options", "told"),
    [
        ("GET", {"headers": {"Host": "inside.example.com"}}, "Host header"),
        ("GET", {"headers": {"Upgrade": "websocket"}}, "another protocol"),
        ("CONNECT", {}, "method 'CONNECT'"),
        ("TRACE", {}, "method 'TRACE'"),
    ],
)
def test_a_request_that_means_something_else_is_blocked(
    send: Send, world: World, method: str, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(http.Blocked, match=told):
        send(method, URL, **options)
    assert world.dialed == []


def test_no_header_smuggles_a_second_one(send: Send, world: World) -> None:
    with pytest.raises(http.Blocked, match="malformed request"):
        send("GET", URL, headers={"X-Name": "a\r\nX-Evil: b"})
    assert world.secure.seen == []


def test_extensions_steer_neither_name_nor_target(send: Send, world: World) -> None:
    world.secure.replies["/"] = answer(b"hello")
    steering = {"sni_hostname": "other.example.net", "target": b"http://127.0.0.1/"}
    assert send("GET", URL, extensions=steering).text == "hello"
    assert world.secure.names == ["api.example.com"]
    assert world.secure.seen[0].startswith(b"GET / HTTP/1.1\r\n")


def test_a_request_made_elsewhere_is_checked_alike(world: World) -> None:
    with http.client(**world.options) as client:
        for url in ("http://127.0.0.1/", "http://localhost/", "ftp://example.com/"):
            with pytest.raises(http.Blocked):
                client.send(httpx.Request("GET", url))
            with pytest.raises(http.Blocked):
                client._transport.handle_request(httpx.Request("GET", url))
    assert world.dialed == []


def test_the_transport_alone_is_bounded(world: World) -> None:
    world.secure.replies["/"] = answer(b"hello")
    with http.client(**world.options) as client:
        got = client._transport.handle_request(httpx.Request("GET", URL))
        assert got.read() == b"hello"
    assert world.dialed == [(PUBLIC, 443)]


def test_an_error_status_is_an_answer(send: Send, world: World) -> None:
    world.secure.replies["/"] = answer(b"", "503 Service Unavailable", Retry_After="7")
    got = send("GET", URL)
    assert (got.status_code, http.retry_after(got)) == (503, 7)
    with pytest.raises(http.HTTPStatusError):
        got.raise_for_status()


def test_the_errors_are_one_family() -> None:
    for error in (http.Blocked, http.TooLarge, http.TooSlow, http.Unreachable):
        assert issubclass(error, http.HttpError)
    assert issubclass(http.HttpError, JobsError)
    transient = {error for error in http.HttpError.__subclasses__() if error.transient}
    assert transient == {http.TooSlow, http.Unreachable}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[(name, value) for name in ("total", "connect", "step") for value in (0, -1, 3601)],
        ("total", None),
        ("total", True),
        ("step", float("nan")),
        ("max_bytes", 0),
        ("max_bytes", 2**31 + 1),
        ("redirects", 4),
        ("redirects", -1),
        ("redirects", True),
    ],
)
def test_a_wrong_option_is_named(option: str, value: Any) -> None:
    for make in (http.client, http.async_client):
        with pytest.raises(InvalidOption) as caught:
            make(**{option: value})
        assert caught.value.option == option


def test_a_context_must_verify() -> None:
    lax = ssl.create_default_context()
    lax.check_hostname = False
    with pytest.raises(InvalidOption, match="must verify"):
        http.client(context=lax)
    lax.verify_mode = ssl.CERT_NONE
    with pytest.raises(InvalidOption, match="must verify"):
        http.async_client(context=lax)


def test_no_url_is_logged(send: Send, world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.secure.replies["/?token=secret"] = answer()
    logging.getLogger().setLevel(logging.INFO)
    send("GET", URL + "?token=secret")
    assert "secret" not in caplog.text


def test_every_option_and_error_is_documented() -> None:
    told = Path(http.__file__).parents[2].joinpath("docs", "http.md").read_text()
    rows = "".join(line for line in told.splitlines() if line.startswith("| `"))
    for make in (http.client, http.async_client):
        for option in inspect.signature(make).parameters:
            assert f"`{option}`" in rows, option
    for error in http.HttpError.__subclasses__():
        assert f"| `{error.__name__}` | {'yes' if error.transient else 'no'} |" in rows


# ---- waits


@pytest.mark.parametrize(
    ("told", "sent", "seconds"),
    [
        ("0", "", 0),
        ("120", "", 120),
        (" 1.5 ", "", 1.5),
        ("999999999", "", 86400),
        ("Wed, 21 Oct 2015 07:28:30 GMT", "Wed, 21 Oct 2015 07:28:00 GMT", 30),
        ("Wed, 21 Oct 2015 07:27:00 GMT", "Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2025 07:27:00 GMT", "Wed, 21 Oct 2015 07:28:00 GMT", 86400),
        ("Wed, 21 Oct 2015 07:28:30 GMT", "", None),
        ("", "", None),
        ("-1", "", None),
        ("soon", "", None),
        ("nan", "", None),
        ("inf", "", None),
        ("1e9", "", None),
        ("9" * 400, "", None),
        ("Wed, 99 Oct 2015 07:28:30 GMT", "Wed, 21 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_how_long_to_wait(told: str, sent: str, seconds: float | None) -> None:
    headers = {name: value for name, value in (("Retry-After", told), ("Date", sent)) if value}
    assert http.retry_after(httpx.Response(429, headers=headers)) == seconds


# ---- the check


def test_an_open_way_inside_is_warned_of(settings: Any) -> None:
    assert checks.settings.calls_stay_outside() == []
    settings.JOBS = {"HTTP_ALLOW": ["127.0.0.0/8"]}
    [told] = checks.settings.calls_stay_outside()
    assert (told.id, "127.0.0.0/8" in told.msg) == ("jobs.W020", True)
    settings.JOBS = {"HTTP_ALLOW": ["*"]}
    assert checks.settings.calls_stay_outside() == []
