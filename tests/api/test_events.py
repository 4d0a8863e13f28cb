"""Events are endpoints like all others: counted, documented, and open to the mount's own login."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connections
from django.test import AsyncClient, Client
from django.urls import path

from jobs.api import build_api
from jobs.principals import Principal, Scope
from jobs.realtime import hub as hubs
from jobs.realtime import staying, tickets
from jobs.realtime.hub import hub
from tests.api import operations
from tests.api.conftest import Caller, call

PATHS = ("/events", "/events/stream")


@pytest.mark.django_db
@pytest.mark.parametrize("where", PATHS)
def test_they_are_counted(where: str, acme: Caller, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "API_RATES": {"read": "2/d"}}
    told = [acme("GET", where) for _ in range(3)]
    assert [one.status_code == 429 for one in told] == [False, False, True]
    assert told[2]["Retry-After"] and told[0]["RateLimit-Policy"] == '"read";q=2;w=86400'


@pytest.mark.django_db
def test_a_key_needs_the_permission_to_see_jobs() -> None:
    caller = Caller(permissions=["enqueue_job"])
    for method, where in (("GET", "/events"), ("POST", "/events/ticket")):
        response = caller(method, where)
        assert (response.status_code, response.data["permission"]) == (403, "view_job")


@pytest.mark.django_db
def test_a_position_that_never_was_is_gone(acme: Caller) -> None:
    response = acme("GET", "/events?since=7")
    assert (response.status_code, response.data["code"]) == (410, "feed-gone")
    assert (response.data["floor"], response.data["head"]) == (0, 0)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "wrong",
    ["since=x", "since=-1", "limit=1001", "topics=a|b", "batch=7", "tenant=a%09b", "topic=a"],
)
def test_what_is_wrong_is_pointed_at(acme: Caller, wrong: str) -> None:
    response = acme("GET", f"/events?{wrong}")
    assert response.status_code == 422
    assert response.data["errors"][0]["pointer"] == "?" + wrong.partition("=")[0]


def test_the_document_tells_of_the_stream() -> None:
    [stream] = [op for op in operations.ALL if op.id == "event_stream"]
    told = stream.details["responses"]
    assert set(told["200"]["content"]) == {"text/event-stream"}
    assert {"410", "4XX", "501", "503"} <= set(told)
    names = {one["name"] for one in stream.details["parameters"]}
    assert names == {"since", "topics", "tenant", "batch", "ticket", "Last-Event-ID"}


# ---- the login of the host


def by_name(request: Any) -> Principal | None:
    """The host's own login, which knows whoever says so while he is in its table."""
    name = request.headers.get("X-Name", "")
    if not User.objects.filter(username=name).exists():
        return None
    return Principal(name, "api", frozenset(), Scope(tenants=frozenset({name})), is_staff=False)


urlpatterns = [
    path("api/v1/", build_api(auth=by_name, include={"events"}, urls_namespace="of-the-host").urls)
]


@pytest.mark.django_db
@pytest.mark.urls(__name__)
def test_a_mount_with_its_own_login_knows_no_keys_but_tickets(client: Client, root: Caller) -> None:
    User.objects.create(username="acme")
    assert root("GET", "/events").status_code == 401
    assert call(client, "GET", "/events", X_Name="acme").status_code == 200
    ticket = tickets.issue(Principal("k", scope=Scope(tenants=frozenset({"acme"}))))
    assert call(client, "GET", f"/events?ticket={ticket}").status_code == 200
    assert call(client, "GET", f"/events?ticket={ticket}").status_code == 401


@pytest.mark.django_db(transaction=True)
@pytest.mark.urls(__name__)
def test_a_stream_of_such_a_mount_lasts_as_long_as_its_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staying, "CHECK", 0.05)
    monkeypatch.setattr(hubs, "KEEP_ALIVE", 0.05)
    User.objects.create(username="acme")

    async def story() -> bytes:
        try:
            headers = {"X-Name": "acme"}
            answer: Any = await AsyncClient().get("/api/v1/events/stream", headers=headers)
            assert answer.status_code == 200
            lines = aiter(answer.streaming_content)
            async with asyncio.timeout(20):
                for _ in range(5):
                    assert not (await anext(lines)).startswith(b"event: closed")
                await User.objects.all().adelete()
                return bytes([line async for line in lines][-1])
        finally:
            hub().end()
            await sync_to_async(connections.close_all)()

    assert b'"unauthenticated"' in asyncio.run(story())


@pytest.mark.django_db(transaction=True)
def test_what_is_wrong_with_a_stream_is_said_before_it_begins(acme: Caller) -> None:
    async def story() -> list[tuple[int, str]]:
        client, found = AsyncClient(), []
        headers = {"Authorization": f"Bearer {acme.secret}"}
        try:
            for query in ("since=7", "since=x", "topics=a|b", "form=1"):
                answer = await client.get(f"/api/v1/events/stream?{query}", headers=headers)
                found.append((answer.status_code, answer.headers["Content-Type"]))
        finally:
            hub().end()
            await sync_to_async(connections.close_all)()
        return found

    told = asyncio.run(story())
    assert {kind for _, kind in told} == {"application/problem+json"}
    assert [status for status, _ in told] == [410, 422, 422, 422]
