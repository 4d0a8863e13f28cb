"""What an effect and the breakers in it cost: round trips to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from asgiref.sync import async_to_sync

import jobs
from jobs import flow
from jobs.engine import calls
from tests.jobs.effects.world import ctx
from tests.jobs.factories import a_claim

pytestmark = pytest.mark.django_db


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every statement of the block, whatever sends it."""
    seen: list[str] = []
    execute, run = psycopg.Cursor.execute, calls._run

    def counted(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(str(query))
        return execute(self, query, *arguments, **options)

    def counted_run(raw: Any, name: str, *arguments: Any) -> Any:
        seen.append(name)
        return run(raw, name, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", counted)
        patch.setattr(calls, "_run", counted_run)
        yield seen


def cost(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> int:
    context = ctx(a_claim())
    with counting(monkeypatch) as seen:
        context.effect("send", call)
    return len(seen)


def breakers(number: int) -> list[flow.Breaker]:
    """Breakers that others have used: each has a row."""
    made = [jobs.breaker(f"test:{uuid4()}", threshold=9) for _ in range(number)]
    for each in made:
        with pytest.raises(TimeoutError), each:
            raise TimeoutError
        with each:
            pass
    return made


def test_a_breaker_costs_one_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = cost(monkeypatch, lambda: 7)
    assert plain == 2
    [one] = breakers(1)
    assert cost(monkeypatch, lambda: one.call(lambda: 7)) == plain + 1
    assert cost(monkeypatch, lambda: jobs.breaker(f"new:{uuid4()}").call(lambda: 7)) == plain + 1


def test_several_breakers_together_cost_one_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    several = breakers(3)

    def call() -> int:
        with flow.together(*several):
            return 7

    assert cost(monkeypatch, call) == 3


def test_several_breakers_of_a_coroutine_cost_one_round_trip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    several = breakers(2)
    context = ctx(a_claim())

    async def call() -> int:
        async with flow.together(*several):
            await asyncio.sleep(0)
            return 7

    async def use() -> int:
        with counting(monkeypatch) as seen:
            await context.effect_async("send", call)
        return len(seen)

    assert async_to_sync(use)() == 3
