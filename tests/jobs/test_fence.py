"""``ctx.fence``: a handler's own transaction commits only while its attempt holds the job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

import jobs
from jobs import registry
from jobs.errors import StaleClaim
from jobs.models import Queue
from jobs.operate.doctor import violations
from jobs.testing import lose_at_fence, run_jobs
from tests.jobs.effects.world import ctx, steal
from tests.jobs.factories import a_claim, row, succeed
from tests.jobs.test_races import another_session

MISUSED = transaction.TransactionManagementError


def written() -> list[str]:
    return sorted(Queue.objects.filter(name__startswith="fence").values_list("name", flat=True))


@pytest.mark.django_db
def test_the_holder_goes_on() -> None:
    with transaction.atomic():
        Queue.objects.create(name="fence")
        ctx(a_claim()).fence()
    assert written() == ["fence"]


@pytest.mark.django_db
@pytest.mark.parametrize("ending", ["stolen", "finished"])
def test_whoever_has_lost_the_job_writes_nothing(ending: str) -> None:
    claim = a_claim()
    steal(claim) if ending == "stolen" else succeed(claim)
    with pytest.raises(StaleClaim, match="attempt 1 no longer holds"), transaction.atomic():
        Queue.objects.create(name="fence")
        ctx(claim).fence()
    assert written() == []


@pytest.mark.django_db
def test_a_swallowed_refusal_still_rolls_back() -> None:
    claim = a_claim()
    steal(claim)
    with transaction.atomic():
        Queue.objects.create(name="fence")
        with suppress(StaleClaim):
            ctx(claim).fence()
    assert written() == []


@pytest.mark.django_db
def test_without_a_transaction_it_is_refused() -> None:
    with pytest.raises(MISUSED, match=r"inside transaction\.atomic\(using='default'\)"):
        ctx(a_claim()).fence()


@pytest.mark.django_db
def test_in_a_coroutine_it_is_refused() -> None:
    context = ctx(a_claim())

    async def handle() -> None:
        context.fence()

    with pytest.raises(MISUSED, match=r"await ctx\.fence_async"):
        asyncio.run(handle())


@pytest.mark.django_db(transaction=True)
def test_the_row_is_locked_until_the_transaction_ends() -> None:
    claim = a_claim()
    take = "SELECT 1 FROM jobs_job WHERE id = %s FOR NO KEY UPDATE SKIP LOCKED"
    with another_session() as other:
        with transaction.atomic():
            ctx(claim).fence()
            assert other.execute(take, [claim.id]).fetchall() == []
            # Rows that refer to the job, such as its effects, are not held up.
            key = "SELECT 1 FROM jobs_job WHERE id = %s FOR KEY SHARE NOWAIT"
            assert len(other.execute(key, [claim.id]).fetchall()) == 1
        assert len(other.execute(take, [claim.id]).fetchall()) == 1


class Fenced(jobs.Payload, kind="test.own_fence"):
    how: str = "plain"


@pytest.fixture
def fenced() -> Iterator[None]:
    """Handlers that leave one row per attempt whose transaction is committed."""

    def write(ctx: jobs.Context) -> None:
        with transaction.atomic():
            Queue.objects.create(name=f"fence {ctx.attempt}")
            ctx.fence()

    def handle(ctx: jobs.Context, payload: Fenced) -> None:
        write(ctx)

    jobs.handler(Fenced, max_attempts=3, backoff=jobs.backoff.Immediate())(handle)
    yield
    registry.unregister("test.own_fence")


@pytest.fixture(params=[False, True], ids=["in a transaction", "without one"])
def database(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("transactional_db" if request.param else "db")


@pytest.mark.usefixtures("database", "fenced")
class TestKit:
    def test_a_fence_holds_under_the_kit(self) -> None:
        jobs.enqueue(Fenced())
        assert run_jobs().succeeded == 1
        assert written() == ["fence 1"]

    def test_a_planned_loss_leaves_what_the_next_attempt_writes(self) -> None:
        job = jobs.enqueue(Fenced())
        with lose_at_fence(Fenced):
            assert [run.state for run in run_jobs().runs] == ["pending", "succeeded"]
        assert written() == ["fence 2"]
        assert row(job.id).failures == 0
        assert violations() == []

    def test_a_plan_that_no_fence_meets_fails_the_test(self) -> None:
        with pytest.raises(AssertionError, match="1 of 1 planned losses"), lose_at_fence(Fenced):
            pass


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("lost", [False, True])
def test_coroutines_have_a_fence(lost: bool) -> None:
    async def handle(ctx: jobs.Context, payload: Fenced) -> None:
        if payload.how == "function":
            await sync_to_async(write)(ctx)
        else:
            block = transaction.atomic()
            await sync_to_async(block.__enter__)()
            error: Any = None
            try:
                await sync_to_async(Queue.objects.create)(name=f"fence block {ctx.attempt}")
                await ctx.fence_async()
            except StaleClaim as stale:
                error = stale
                raise
            finally:
                await sync_to_async(block.__exit__)(error and type(error), error, None)

    def write(ctx: jobs.Context) -> None:
        with transaction.atomic():
            Queue.objects.create(name=f"fence function {ctx.attempt}")
            ctx.fence()

    jobs.handler(Fenced, backoff=jobs.backoff.Immediate())(handle)
    try:
        jobs.enqueue_many([Fenced(how="function"), Fenced(how="block")])
        if lost:
            with lose_at_fence(Fenced, times=2):
                run_jobs()
        else:
            run_jobs()
    finally:
        registry.unregister("test.own_fence")
    number = 2 if lost else 1
    assert written() == [f"fence block {number}", f"fence function {number}"]


@pytest.mark.django_db
def test_an_atomic_handler_may_fence_as_well() -> None:
    def handle(ctx: jobs.Context, payload: Fenced) -> None:
        ctx.fence()
        Queue.objects.create(name=f"fence {ctx.attempt}")

    jobs.handler(Fenced, atomic=True, backoff=jobs.backoff.Immediate())(handle)
    try:
        jobs.enqueue(Fenced())
        with lose_at_fence(Fenced):
            assert run_jobs().succeeded == 1
    finally:
        registry.unregister("test.own_fence")
    assert written() == ["fence 2"]
