"""Every socket of the project: who may open it, and what of others it shows (nothing)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client

import jobs
from config import asgi
from jobs.engine import outbox
from jobs.operate import apikeys
from jobs.realtime import hub as hubs
from jobs.realtime.hub import hub
from tests.operations import factories
from tests.redis import forget_counts

pytestmark = pytest.mark.django_db(transaction=True)
PATHS = sorted(str(route.pattern) for route in asgi.sockets)
TOPICS = ("order.paid", "import.progress", "operations.JOB_QUEUED", "batch:progress")
Headers = tuple[tuple[bytes, bytes], ...]


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(hubs, "KEEP_ALIVE", 0.05)
    forget_counts()
    yield
    forget_counts()


def opened(path: str, headers: Headers = (), query: str = "") -> tuple[list[str], int | None]:
    """Return what a socket is sent until it has arrived at the present, and how it was closed."""
    head = jobs.events.feed_head()

    async def story() -> tuple[list[str], int | None]:
        scope = {
            "type": "websocket", "path": f"/{path}", "query_string": query.encode(),
            "headers": [(b"host", b"testserver"), *headers], "client": ("203.0.113.9", 1),
            "subprotocols": [],
        }  # fmt: skip
        make: Any = ApplicationCommunicator
        socket = make(asgi.application, scope)
        sent: list[str] = []
        try:
            await socket.send_input({"type": "websocket.connect"})
            while True:
                told = await socket.receive_output(20)
                if told["type"] == "websocket.close":
                    return sent, told["code"]
                if told["type"] == "websocket.send":
                    sent.append(told["text"])
                    message = json.loads(told["text"])
                    if message.get("position", message.get("eventId")) >= head:
                        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
                        await socket.wait(10)
                        return sent, None
        finally:
            hub().end()

    return asyncio.run(story())


def logged_in(user: User, origin: str = "http://testserver") -> Headers:
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    return ((b"cookie", f"sessionid={cookie}".encode()), (b"origin", origin.encode()))


def test_no_socket_is_left_out() -> None:
    """A new one is to be walked here, with the topics that it shows."""
    assert PATHS == ["ws/coach", "ws/events", "ws/operations"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ((), ""),
        (((b"authorization", b"Bearer jd_live_nothing"),), ""),
        (((b"cookie", b"sessionid=forged"), (b"origin", b"http://testserver")), ""),
        ((), "ticket=forged.ticket"),
    ],
    ids=["nobody", "a wrong key", "a forged session", "a forged ticket"],
)
def test_who_is_not_known_is_shown_nothing(path: str, headers: Headers, query: str) -> None:
    sent, code = opened(path, headers, query)
    assert (code, [text for text in sent if "payload" in text]) == (4401, [])


@pytest.mark.parametrize("path", PATHS)
def test_a_page_of_another_site_opens_none(path: str) -> None:
    user = User.objects.create(username="ann", is_staff=True, is_superuser=True)
    sent, code = opened(path, logged_in(user, "https://evil.example"))
    assert sent == [] and code in (4401, 4403)


@pytest.mark.parametrize("path", PATHS)
def test_a_user_is_shown_nothing_of_others(path: str) -> None:
    ann, bob = (User.objects.create(username=name) for name in ("ann", "bob"))
    for user, key in ((ann, "ann"), (bob, "bob")):
        user.user_permissions.set(Permission.objects.all())
        factories.agent(key, user=user)
    for topic in TOPICS:
        for tenant in (f"user:{bob.pk}", "agent:bob", "acme"):
            jobs.emit(topic, {"of": "others4711"}, tenant=tenant)
        for tenant in (f"user:{ann.pk}", "agent:ann"):
            jobs.emit(topic, {"of": "ann4711"}, tenant=tenant)
    while outbox.relay_once().moved:
        pass
    since = "lastEventId" if path != "ws/events" else "since"
    sent, _ = opened(path, logged_in(ann), f"{since}=0")
    assert "ann4711" in str(sent) and "others4711" not in str(sent)


@pytest.mark.parametrize("path", PATHS)
def test_a_key_without_permission_opens_none(path: str) -> None:
    made = apikeys.create("site", ["view_schedule"], by="test", reason="test")
    _, code = opened(path, ((b"authorization", f"Bearer {made.text}".encode()),))
    assert code == 4403
