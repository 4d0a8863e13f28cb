"""What pages say of their regions, and where there is no stream."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.test import Client
from django.urls import resolve

import jobs
from jobs.admin import live
from jobs.admin.access import principal
from tests.jobs.factories import a_job
from tests.specimens.handlers import Noop

PAGE = "/admin/jobs/job/"


def asked(client: Client, path: str = PAGE, query: str = "_stream=2") -> ASGIRequest:
    """The request of somebody logged in, as an ASGI server makes it."""
    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": query.encode(),
        "headers": [(b"host", b"testserver")],
    }  # fmt: skip
    request = ASGIRequest(scope, BytesIO())
    request.session = client.session
    request.user = User.objects.get(pk=client.session["_auth_user_id"])
    request.resolver_match = resolve(path)
    return request


@pytest.fixture
def root(client: Client, db: None, monkeypatch: pytest.MonkeyPatch) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    monkeypatch.setattr(connections, "all", lambda **how: [])  # the test's own stays
    return client


def test_a_look_tells_what_has_changed(root: Client) -> None:
    request = asked(root)
    first = live._look(request)
    assert first is not None and list(first) == ["jd-jobs"]
    assert live._look(request) == first
    jobs.enqueue(Noop())
    assert live._look(request) != first


def test_a_look_keeps_to_the_query_of_the_page(root: Client) -> None:
    request = asked(root, query="q=kind:test.echo&_stream=2")
    first = live._look(request)
    jobs.enqueue(Noop())
    assert live._look(request) == first


def test_who_may_not_look_any_more_is_told_nothing(root: Client) -> None:
    request = asked(root)
    assert live._look(request) is not None
    User.objects.update(is_superuser=False)
    assert live._look(request) is None
    User.objects.update(is_superuser=True)
    root.session.flush()
    assert live._look(request) is None


def test_what_is_gone_is_looked_at_no_more(root: Client) -> None:
    job_id = a_job("succeeded")
    request = asked(root, f"{PAGE}{job_id}/change/")
    assert live._look(request) is not None
    jobs.Job.objects.all().delete()
    assert live._look(request) is None


def test_without_asgi_there_is_no_stream(root: Client) -> None:
    assert root.get(PAGE, {"_stream": "2"}).status_code == 501
    assert b"data-stream" not in root.get(PAGE).content
    assert list(root.get(PAGE, {"_look": "1"}).json()) == ["jd-jobs"]


def test_a_process_holds_so_many(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST", 0)
    answer = live.stream(asked(root))
    assert answer.status_code == 503 and "Retry-After" in answer


def test_the_first_words_say_that_all_is_to_be_read(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}, None]
    monkeypatch.setattr(live, "_look", lambda request: looks.pop(0))
    monkeypatch.setattr(live, "GAP", 0.0)
    monkeypatch.setattr(live, "_seconds", lambda request: 0.0)

    async def silent(who: Any, rings: Any) -> None:
        return None

    monkeypatch.setattr(live, "_hear", silent)

    async def told() -> list[str]:
        who = principal(asked_request)
        return [line.decode() async for line in live._lines(asked_request, who)]

    asked_request = asked(root)
    said = asyncio.run(told())
    assert said[1:] == [
        'event: stale\ndata: ["a", "b"]\n\n',
        'event: stale\ndata: ["b"]\n\n',
        "event: closed\ndata: []\n\n",
    ]
    assert not live._open
