"""Sockets stay open only as long as whoever opened them may listen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, override_settings

from jobs.operate import apikeys
from jobs.realtime import hub as hubs
from jobs.realtime import sockets, staying, tickets
from jobs.realtime.channels import Channel
from jobs.realtime.hub import hub
from tests.redis import forget_counts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked every moment whether one may stay."""
    monkeypatch.setattr(staying, "CHECK", 0.05)
    monkeypatch.setattr(hubs, "KEEP_ALIVE", 0.05)


def closed_after(
    act: Callable[[], object], query: str = "", headers: tuple[tuple[bytes, bytes], ...] = ()
) -> tuple[int, str]:
    """The code and the reason with which a socket is closed once the act is done."""

    async def story() -> tuple[int, str]:
        scope = {
            "type": "websocket",
            "path": "/ws/events",
            "query_string": query.encode(),
            "headers": [(b"host", b"testserver"), *headers],
        }
        make: Any = ApplicationCommunicator
        socket = make(sockets.Events.as_asgi(), scope)
        try:
            await socket.send_input({"type": "websocket.connect"})
            assert (await socket.receive_output(5))["type"] == "websocket.accept"
            for _ in range(5):  # it stays open while nothing changes
                assert (await socket.receive_output(5))["type"] == "websocket.send"
            await sync_to_async(act)()
            while (told := await socket.receive_output(5))["type"] == "websocket.send":
                pass
            await socket.send_input({"type": "websocket.disconnect", "code": 1000})
            await socket.wait(5)
            return told["code"], told["reason"]
        finally:
            hub().end()

    return asyncio.run(story())


@pytest.mark.parametrize("where", ["", "app"])
def test_failed_logins_are_counted(where: str) -> None:
    forget_counts()
    channel = Channel("a.board", topics=["a.*"]) if where else None

    async def story() -> list[int]:
        make: Any = ApplicationCommunicator
        codes = []
        for _ in range(5):
            scope = {
                "type": "websocket", "path": "/ws/events", "query_string": b"",
                "client": ("203.0.113.9", 1), "headers": [(b"authorization", b"Bearer jd_live_x")],
            }  # fmt: skip
            socket = make(sockets.Events.as_asgi(channel=channel), scope)
            await socket.send_input({"type": "websocket.connect"})
            await socket.receive_output(5)
            codes.append((await socket.receive_output(5))["code"])
            await socket.send_input({"type": "websocket.disconnect", "code": 1000})
            await socket.wait(5)
        return codes

    try:
        with override_settings(JOBS={**settings.JOBS, "API_RATES": {"refused": "3/d"}}):
            assert asyncio.run(story()) == [4401] * 3 + [4429] * 2
    finally:
        forget_counts()


def logged_in(client: Client) -> tuple[tuple[bytes, bytes], ...]:
    client.force_login(User.objects.create(username="ann"))
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    return ((b"cookie", f"sessionid={cookie}".encode()), (b"origin", b"http://testserver"))


@pytest.mark.parametrize(
    "act",
    [
        lambda client: client.logout(),
        lambda client: User.objects.update(is_active=False),
        lambda client: User.objects.update(is_staff=True, is_superuser=True),
    ],
    ids=["logged out", "inactive", "sees something else"],
)
def test_a_session_that_ends_ends_its_socket(client: Client, act: Any) -> None:
    headers = logged_in(client)
    assert closed_after(lambda: act(client), headers=headers) == (4401, "log in first")


def test_a_key_that_is_revoked_ends_the_sockets_of_its_tickets() -> None:
    made = apikeys.create("site", ["view_job"], by="test", reason="test")
    ticket = tickets.issue(apikeys.holder(made.key.prefix))  # type: ignore[arg-type]
    revoke = lambda: apikeys.revoke(made.key.pk, by="test", reason="test")  # noqa: E731
    assert closed_after(revoke, query=f"ticket={ticket}")[0] == 4401
