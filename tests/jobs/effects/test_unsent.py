"""Calls that failed before anything was sent have not happened; all others are in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

import jobs
from jobs import http
from tests.http import servers
from tests.http.servers import World, answer
from tests.jobs.effects.world import ctx, the_effect
from tests.jobs.factories import a_claim

pytestmark = pytest.mark.django_db
URL = "http://api.example.com/"
GONE = "http://gone.example.com/"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with servers.world(monkeypatch) as made:
        yield made


def state_after(call: Callable[[], Any], error: type[BaseException]) -> str:
    claim = a_claim()
    with pytest.raises(error):
        ctx(claim).effect("send", call)
    return the_effect(claim.id).state


def test_a_name_that_is_not_found_is_not_in_doubt(world: World) -> None:
    with http.client(**world.options) as client:
        assert state_after(lambda: client.post(GONE), http.Unreachable) == "failed"


def test_the_next_attempt_calls_again_without_a_probe(world: World) -> None:
    claim = a_claim()
    with http.client(**world.options) as client:
        with pytest.raises(http.Unreachable):
            ctx(claim).effect("send", lambda: client.post(GONE))
        world.plain.replies["/"] = answer(b"taken")
        assert ctx(claim).effect("send", lambda: client.post(URL).text) == "taken"


def test_a_lost_answer_is_in_doubt(world: World) -> None:
    world.plain.replies["/"] = b"nonsense\r\n\r\n"
    with http.client(**world.options) as client:
        assert state_after(lambda: client.post(URL), http.Unreachable) == "intent"


def test_an_error_that_was_raised_from_an_unsent_call_says_the_same(world: World) -> None:
    with http.client(**world.options) as client:

        def call() -> None:
            try:
                client.post(GONE)
            except http.HttpError as error:
                raise ValueError("their service is away") from error

        assert state_after(call, ValueError) == "failed"


def test_where_an_earlier_request_was_sent_the_effect_is_in_doubt(world: World) -> None:
    world.plain.replies["/"] = answer(b"taken")
    with http.client(**world.options) as client:

        def call() -> None:
            client.post(URL)
            client.post(GONE)

        assert state_after(call, http.Unreachable) == "intent"


def test_an_unsent_call_of_a_coroutine_is_not_in_doubt(world: World) -> None:
    claim = a_claim()

    async def use(*urls: str) -> None:
        async with http.async_client(**world.options) as client:

            async def call() -> None:
                await asyncio.gather(*(client.post(url) for url in urls))

            await ctx(claim).effect_async("send", call)

    with pytest.raises(http.Unreachable):
        async_to_sync(use)(GONE)
    assert the_effect(claim.id).state == "failed"


def test_an_error_of_another_kind_stays_in_doubt() -> None:
    def call() -> None:
        raise ConnectionRefusedError("perhaps by the second of two servers")

    assert state_after(call, ConnectionRefusedError) == "intent"


def test_what_was_sent_before_the_effect_does_not_count(world: World) -> None:
    world.plain.replies["/"] = answer(b"well")
    claim = a_claim()
    with http.client(**world.options) as client:
        client.get(URL)
        with pytest.raises(jobs.JobsError):
            ctx(claim).effect("send", lambda: client.post(GONE))
    assert the_effect(claim.id).state == "failed"
