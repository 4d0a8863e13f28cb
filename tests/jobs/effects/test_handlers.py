"""Effects in handlers: async ones, transactions, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import transaction

import jobs
from jobs.context import Context
from jobs.models import Effect
from tests.jobs.effects.world import Outside, Parked, ctx, run, the_effect
from tests.jobs.factories import a_claim, row

pytestmark = pytest.mark.django_db


# ---- transactions and bad arguments


def test_inside_a_transaction_it_is_refused(outside: Outside) -> None:
    context = ctx(a_claim())
    with (
        transaction.atomic(),
        pytest.raises(jobs.errors.EffectError, match=r"outside of transaction\.atomic"),
    ):
        context.effect("send", outside)
    assert not Effect.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_without_autocommit_it_is_refused(outside: Outside) -> None:
    context = ctx(a_claim())
    transaction.set_autocommit(False)
    try:
        with pytest.raises(jobs.errors.EffectError, match="rolled back with it"):
            context.effect("send", outside)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert outside.calls == 0


class Atomic(jobs.Payload, kind="test.atomic_effect"):
    pass


class Async(jobs.Payload, kind="test.async_effect"):
    pass


def test_an_atomic_handler_has_no_effects(registered: Any, outside: Outside) -> None:
    def handle(ctx: Context, payload: Atomic) -> None:
        ctx.effect("send", outside)

    registered(Atomic, handle, atomic=True, max_attempts=1)
    claim = a_claim(Atomic())
    run(claim)
    assert "an atomic handler has no effects" in row(claim.id).error
    assert outside.calls == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"key": ""}, "key is empty"),
        ({"key": "a\0b"}, "key contains a control character"),
        ({"key": "x" * 201}, "key is longer than 200"),
        ({"key": 7}, "key must be text"),
        ({"on_doubt": "repeat"}, "on_doubt must be"),
        ({"definite": [ValueError]}, "definite must be a tuple"),
        ({"definite": (ValueError(),)}, "definite must be a tuple"),
        ({"request": object()}, "request cannot be stored"),
        ({"request": "\0"}, "request cannot be stored"),
        ({"call": "send"}, "call must be a function"),
        ({"probe": "find"}, "probe must be a function"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(jobs.errors.EffectError, match=problem):
        ctx(a_claim()).effect(**{"key": "send", "call": pytest.fail, **arguments})
    assert not Effect.objects.exists()


# ---- async


def test_async_handlers_have_effects_too(registered: Any, outside: Outside) -> None:
    async def call() -> Any:
        await asyncio.sleep(0)
        return outside()

    async def handle(ctx: Context, payload: Async) -> Any:
        plain = await ctx.effect_async("plain", outside)
        return [plain, await ctx.effect_async("send", call)]

    registered(Async, handle)
    job_id = jobs.enqueue(Async()).id
    from jobs.testing import run_jobs

    assert run_jobs().succeeded == 1
    assert row(job_id).result == [{"number": 1}, {"number": 2}]
    assert the_effect(job_id).state == "done"


def test_a_handler_with_an_effect_keeps_the_contract(registered: Any, outside: Outside) -> None:
    from jobs.testing import check_handler

    def handle(ctx: Context, payload: Parked) -> Any:
        return ctx.effect("send", outside)

    registered(Parked, handle)
    assert check_handler(Parked()) == {"number": 1}


def test_async_probes_are_awaited(registered: Any, outside: Outside) -> None:
    async def probe(intent: jobs.effects.Intent) -> jobs.effects.Happened:
        await asyncio.sleep(0)
        return jobs.effects.Happened(intent.attempt)

    async def break_it() -> None:
        outside()
        raise TimeoutError

    async def handle(ctx: Context, payload: Async) -> Any:
        return await ctx.effect_async("send", break_it, probe=probe)

    registered(Async, handle, backoff=jobs.backoff.Immediate())
    job_id = jobs.enqueue(Async()).id
    from jobs.testing import run_jobs

    run_jobs()
    assert (row(job_id).state, row(job_id).result, outside.calls) == ("succeeded", 1, 1)


def test_the_sync_form_says_what_async_handlers_should_say(
    registered: Any, outside: Outside
) -> None:
    async def handle(ctx: Context, payload: Async) -> Any:
        return ctx.effect("send", outside)

    registered(Async, handle, max_attempts=1)
    job_id = jobs.enqueue(Async()).id
    from jobs.testing import run_jobs

    run_jobs()
    assert "await ctx.effect_async" in row(job_id).error
