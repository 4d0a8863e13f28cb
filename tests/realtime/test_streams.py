"""Streams go on only as long as whoever opened them may listen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from jobs.operate import apikeys
from jobs.realtime import hub as hubs
from jobs.realtime import staying, tickets
from jobs.realtime.hub import hub
from tests.jobs.factories import sql

pytestmark = pytest.mark.django_db(transaction=True)
STREAM = "/api/v1/events/stream"
CLOSED = b'event: closed\ndata: {"code":4401,"reason":"unauthenticated"}\n\n'


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked every moment whether one may go on."""
    monkeypatch.setattr(staying, "CHECK", 0.05)
    monkeypatch.setattr(hubs, "KEEP_ALIVE", 0.05)


def last_words(
    act: Callable[[], object], query: str = "", cookie: str = "", **headers: str
) -> bytes:
    """What a stream says last once the act is done."""

    async def story() -> bytes:
        client = AsyncClient()
        if cookie:
            client.cookies[settings.SESSION_COOKIE_NAME] = cookie
        try:
            answer: Any = await client.get(f"{STREAM}?{query}", headers=headers)
            assert answer.status_code == 200
            lines = aiter(answer.streaming_content)
            async with asyncio.timeout(20):
                for _ in range(5):  # it goes on while nothing changes
                    assert not (await anext(lines)).startswith(b"event: closed")
                await sync_to_async(act)()
                return bytes([line async for line in lines][-1])
        finally:
            hub().end()

    return asyncio.run(story())


@pytest.mark.parametrize(
    "act",
    [
        lambda client: client.logout(),
        lambda client: User.objects.update(is_active=False),
        lambda client: User.objects.update(is_staff=True, is_superuser=True),
    ],
    ids=["logged out", "inactive", "sees something else"],
)
def test_a_session_that_ends_ends_its_stream(client: Client, act: Any) -> None:
    client.force_login(User.objects.create(username="ann"))
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    assert last_words(lambda: act(client), cookie=cookie) == CLOSED


@pytest.mark.parametrize("by_ticket", [False, True], ids=["key", "ticket"])
@pytest.mark.parametrize("narrowed", [False, True], ids=["revoked", "narrowed"])
def test_a_key_that_loses_its_sight_ends_its_stream(by_ticket: bool, narrowed: bool) -> None:
    made = apikeys.create("site", ["view_job"], tenants=["a", "b"], by="test", reason="test")

    def act() -> None:
        if narrowed:
            sql("UPDATE jobs_apikey SET tenants = '{a}'")
        else:
            apikeys.revoke(made.key.pk, by="test", reason="test")

    if by_ticket:
        ticket = tickets.issue(apikeys.holder(made.key.prefix))  # type: ignore[arg-type]
        assert last_words(act, query=f"ticket={ticket}") == CLOSED
    else:
        assert last_words(act, Authorization=f"Bearer {made.text}") == CLOSED
