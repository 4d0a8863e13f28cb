"""Sockets of real servers, and who may open them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from tests.integration.fleet import Fleet
from tests.integration.realtime.site import Site, closed, emit, head, received
from tests.wait import wait_until

pytestmark = pytest.mark.slow


def test_a_socket_tells_what_was_and_what_comes(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    for number in range(3):
        emit(fleet, "shop.sold", "acme", number=number)
    wait_until(lambda: head(fleet) == 3)
    with site.socket(staff, since=1) as socket:
        assert json.loads(socket.recv(10)) == {"type": "events", "position": 1, "events": []}
        assert [e["position"] for e in received(socket, 2)] == [2, 3]
        emit(fleet, "shop.sold", "acme", number=3)
        [event] = received(socket, 1)
        assert (event["position"], event["topic"], event["tenant"]) == (4, "shop.sold", "acme")
        assert event["payload"] == {"number": 3} and UUID(event["id"])


def test_each_sees_his_own(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    key, user = site.visitor("ann")
    emit(fleet, "a.mine", f"user:{key}")
    emit(fleet, "a.secret", f"user:{key}", "staff")
    emit(fleet, "a.other", "acme")
    emit(fleet, "a.nobody")
    emit(fleet, "b.mine", f"user:{key}")
    wait_until(lambda: head(fleet) == 5)

    def topics(cookie: str, **options: Any) -> list[str]:
        query = urlencode({"since": 0, **options})
        status, page = site.get(f"/api/v1/events?{query}", cookie)
        assert status == 200 and page["next"] == 5, page
        with site.socket(cookie, since=0, **options) as socket:
            expected = [e["topic"] for e in page["data"]]
            assert [e["topic"] for e in received(socket, len(expected))] == expected
        return expected

    assert topics(staff) == ["a.mine", "a.secret", "a.other", "a.nobody", "b.mine"]
    assert topics(staff, tenant="acme") == ["a.other"]
    assert topics(user) == ["a.mine", "b.mine"]
    assert topics(user, topics="b.*") == ["b.mine"]
    assert topics(user, tenant="acme") == []


@pytest.mark.parametrize(
    ("options", "status", "code", "words"),
    [
        ({"since": "7"}, 410, 4410, "never reached"),
        ({"since": "x"}, 422, 4400, "since"),
        ({"topics": "a|b"}, 422, 4400, "topics"),
        ({"batch": "x"}, 422, 4400, "batch"),
        ({"form": "1"}, 422, 4400, "form"),
    ],
)
def test_a_wrong_question_is_answered(
    site: Site, options: dict[str, str], status: int, code: int, words: str
) -> None:
    _, staff = site.visitor("staff")
    for path in ("/api/v1/events", "/api/v1/events/stream"):
        told, page = site.get(f"{path}?{urlencode(options)}", staff)
        assert (told, page["status"]) == (status, status) and words in json.dumps(page)
    told, reason = closed(site.socket(staff, **options))
    assert told == code and words in reason


def test_strangers_are_told_nothing(site: Site) -> None:
    _, staff = site.visitor("staff")
    assert closed(site.socket(""))[0] == 4401
    assert closed(site.socket("sessionid=made-up"))[0] == 4401
    assert closed(site.socket(staff, origin="http://evil.example"))[0] == 4403
    assert closed(site.socket(staff, origin=None))[0] == 4403
    for path in ("/api/v1/events", "/api/v1/events/stream"):
        status, page = site.get(path, "")
        assert (status, page["code"]) == (401, "unauthenticated")


def test_only_what_concerns_a_batch(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    batch = "01234567-89ab-7def-8123-456789abcdef"
    emit(fleet, "a", batch="somebody else's")
    emit(fleet, "b", batch=batch)
    with site.socket(staff, since=0, batch=batch) as socket:
        assert [e["topic"] for e in received(socket, 1)] == ["b"]


def test_keys_and_tickets_open_sockets(fleet: Fleet, site: Site) -> None:
    made = fleet.manage(
        "key", "jobs", "api-keys", "create", "site", "view_job", "--tenants=acme",
        "--reason=test", "--json",
    )  # fmt: skip
    assert made.ended(20) == 0, made.logged()
    key = json.loads(made.logged())["text"]
    emit(fleet, "a.mine", "acme")
    emit(fleet, "a.other", "other")
    wait_until(lambda: head(fleet) == 2)

    def ticket() -> str:
        request = urllib.request.Request(
            f"http://127.0.0.1:{site.port}/api/v1/events/ticket",
            headers={"Authorization": f"Bearer {key}"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own
            return str(json.load(answer)["ticket"])

    one = ticket()
    with site.socket("", origin="http://elsewhere.example", since=0, ticket=one) as socket:
        assert [e["topic"] for e in received(socket, 1)] == ["a.mine"]
        emit(fleet, "a.later", "acme")
        assert [e["topic"] for e in received(socket, 1)] == ["a.later"]
    assert closed(site.socket("", since=0, ticket=one))[0] == 4401
