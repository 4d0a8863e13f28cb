"""Redirects are followed only when asked for, and each one is judged like a first call."""

from __future__ import annotations

import pytest

from jobs import http
from tests.http.conftest import Send
from tests.http.servers import OTHER, PUBLIC, World, answer, redirect

URL = "https://api.example.com/"


def test_a_redirect_is_an_answer_unless_it_is_to_be_followed(send: Send, world: World) -> None:
    world.secure.replies["/"] = redirect("/new")
    got = send("GET", URL)
    assert (got.status_code, got.headers["location"]) == (302, "/new")
    assert len(world.secure.seen) == 1


@pytest.mark.parametrize("follow", [True, False])
def test_one_call_may_decide_otherwise_than_its_client(
    send: Send, world: World, follow: bool
) -> None:
    world.secure.replies |= {"/": redirect("/new"), "/new": answer(b"new")}
    got = send("GET", URL, redirects=0 if follow else 2, follow_redirects=follow)
    assert got.status_code == (200 if follow else 302)


def test_three_redirects_are_followed_and_no_fourth(send: Send, world: World) -> None:
    hops = {f"/{n}": redirect(f"/{n + 1}") for n in range(3)}
    world.secure.replies |= {**hops, "/3": answer(b"there")}
    got = send("GET", URL + "0", redirects=3)
    assert got.text == "there"
    assert [one.url.path for one in got.history] == ["/0", "/1", "/2"]
    world.secure.replies["/3"] = redirect("/4")
    with pytest.raises(http.Blocked, match="more than 3 redirects"):
        send("GET", URL + "0", redirects=3)
    with pytest.raises(http.Blocked, match="more than 3 redirects"):
        send("GET", URL + "0", follow_redirects=True)
    with pytest.raises(http.Blocked, match="more than 1 redirects"):
        send("GET", URL + "0", redirects=1)


@pytest.mark.parametrize(
    "to",
    [
        "http://169.254.169.254/latest/meta-data/",
        "https://169.254.169.254/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://2130706433/",
        "https://localhost/",
        "https://inside.example.org/",
        "https://api.example.com:22/",
        "https://user:secret@other.example.net/",
        "//127.0.0.1/",
        "file:///etc/passwd",
        "gopher://other.example.net/",
        "data:text/plain,hi",
        "http://api.example.com/",
        "http://other.example.net/",
        "https://[::1",
        "https://other.example.net\\@127.0.0.1/",
    ],
)
def test_a_redirect_out_of_bounds_is_not_followed(send: Send, world: World, to: str) -> None:
    world.answers["inside.example.org"] = [["10.0.0.1"]]
    world.secure.replies["/"] = redirect(to)
    with pytest.raises(http.HttpError):
        send("GET", URL, redirects=3)
    assert world.dialed == [(PUBLIC, 443)]
    assert world.plain.accepted == 0


SECRETS = {
    "Authorization": "Bearer secret",
    "X-Api-Key": "secret",
    "Cookie": "session=secret",
    "X-Signature": "sha256=secret",
    "Accept": "application/json",
}


def test_no_secret_goes_to_another_host(send: Send, world: World) -> None:
    world.secure.replies |= {"/": redirect("https://other.example.net/new"), "/new": answer(b"new")}
    got = send("GET", URL, headers=SECRETS, auth=("user", "secret"), redirects=1)
    assert got.text == "new"
    assert world.dialed == [(PUBLIC, 443), (OTHER, 443)]
    seen = world.secure.headers()
    assert seen["host"] == "other.example.net"
    assert seen["accept"] == "application/json"
    assert "secret" not in str(seen)
    assert not {"authorization", "x-api-key", "cookie", "x-signature"} & set(seen)


def test_secrets_stay_on_their_own_host(send: Send, world: World) -> None:
    world.secure.replies |= {"/": redirect("/new"), "/new": answer(b"new")}
    send("GET", URL, headers={"X-Api-Key": "secret"}, redirects=1)
    assert world.secure.headers()["x-api-key"] == "secret"


def test_http_may_become_https(send: Send, world: World) -> None:
    world.plain.replies["/"] = redirect(URL)
    world.secure.replies["/"] = answer(b"safe")
    assert send("GET", "http://api.example.com/", redirects=1).text == "safe"


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
def test_no_body_goes_to_another_host(send: Send, world: World, status: str) -> None:
    world.secure.replies["/"] = redirect("https://other.example.net/new", status)
    with pytest.raises(http.Blocked, match="body"):
        send("POST", URL, content=b"secret", redirects=3)
    assert world.dialed == [(PUBLIC, 443)]
    world.secure.replies |= {"/": redirect("/new", status), "/new": answer(b"new")}
    assert send("POST", URL, content=b"secret", redirects=3).text == "new"
    assert world.secure.seen[-1].endswith(b"\r\n\r\nsecret")


def test_redirects_share_one_end(send: Send, world: World) -> None:
    def slowly(line: object, closing: object) -> None:
        closing.wait(0.15)  # type: ignore[attr-defined]
        line.sendall(redirect("/", "302 Found"))  # type: ignore[attr-defined]

    world.secure.replies["/"] = slowly
    with pytest.raises(http.TooSlow):
        send("GET", URL, redirects=3, total=0.3)


def test_a_page_that_refreshes_itself_is_a_page(send: Send, world: World) -> None:
    page = b'<meta http-equiv="refresh" content="0; url=http://127.0.0.1/">'
    world.secure.replies["/"] = answer(page, Refresh="0; url=http://127.0.0.1/")
    assert send("GET", URL, redirects=3).content == page
    assert world.dialed == [(PUBLIC, 443)]
