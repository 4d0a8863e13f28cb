"""A holder that is queued and has not begun gives its exclusive key to who matters more."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs import registry
from jobs.engine import claims, reconcile, rq, slots
from jobs.engine.admission import sync_limits
from jobs.engine.dispatch import admit, know_queues
from jobs.operate.cancel import cancel
from tests.jobs.crowd import at_once
from tests.jobs.factories import (
    WORKER,
    a_job,
    an_executor,
    claim_again,
    ended,
    row,
    settle,
    sql,
    state,
    succeed,
)
from tests.jobs.mill import grind, most_at_once

pytestmark = pytest.mark.django_db


class Low(jobs.Payload, kind="test.low"):
    pass


class High(jobs.Payload, kind="test.high"):
    pass


class Narrow(jobs.Payload, kind="test.narrow_high"):
    pass


class PerKey(jobs.Payload, kind="test.per_key_high"):
    pass


class Once(jobs.Payload, kind="test.low_once", aliases=["test.low_then"]):
    pass


@pytest.fixture(autouse=True)
def kinds(db: None) -> Iterator[None]:
    """High and Narrow push Low and Once aside."""

    def nothing(ctx: jobs.Context, payload: jobs.Payload) -> None:
        """Never called."""

    jobs.handler(Low, preemptible=True)(nothing)
    jobs.handler(Once, preemptible=True, preemptions=1)(nothing)
    jobs.handler(High, preempts=True, preemptible=True)(nothing)
    jobs.handler(Narrow, preempts=True, concurrency=1)(nothing)
    jobs.handler(PerKey, preempts=True, per_key=jobs.Limit(at_once=1))(nothing)
    know_queues({"default"})
    yield
    for payload in (Low, Once, High, Narrow, PerKey):
        registry.unregister(payload.kind)


def waiting(payload: jobs.Payload, priority: int = 0, **options: Any) -> UUID:
    return a_job("pending", payload, exclusive="k", priority=priority, **options)


def fed() -> list[UUID]:
    return admit("default", 10)


def holder() -> UUID | None:
    found = sql("SELECT job_id FROM jobs_slot WHERE key = 'k'")
    return found[0][0] if found else None


def a_queued_holder(payload: jobs.Payload | None = None, **options: Any) -> UUID:
    job_id = waiting(payload or Low(), **options)
    assert fed() == [job_id]
    return job_id


@pytest.mark.parametrize("was_put_aside", [True, False], ids=["put aside", "not looked at"])
def test_a_queued_holder_makes_way_at_once(was_put_aside: bool) -> None:
    """Also for a job that no dispatcher has looked at yet, because the list is full."""
    low = a_queued_holder()
    high = waiting(High(), 10)
    if was_put_aside:
        assert fed() == [] and row(high).wait == 2
    assert reconcile.preempt() == 1
    job = row(low)
    assert (job.state, job.attempt, job.preemptions, job.preempted_by) == ("pending", 0, 1, None)
    assert (job.failures, job.releases, job.preempt_asked_at) == (0, 0, None)
    assert job.history[-1][2:5:2] == ["pending", "preempted before it started"]
    assert (state(high), holder()) == ("queued", high)
    assert rq.take(["default"], 1) == {"default": [high]}, "it is the next to begin"


def test_its_id_in_redis_is_dropped_at_the_claim() -> None:
    low = a_queued_holder()
    high = waiting(High(), 10)
    reconcile.preempt()
    claimed = claims.claim("default", [low, high], an_executor("default"), WORKER)
    assert [claim.id for claim in claimed] == [high]


def test_nobody_takes_it_in_between_and_it_comes_back_afterwards() -> None:
    low = a_queued_holder()
    waiting(Low(), 50)
    high = waiting(High(), 60)
    reconcile.preempt()
    for _ in range(3):
        assert (reconcile.preempt(), fed()) == (0, [])
    assert row(low).preemptions == 1
    better = fed_after(succeed, claim_again(high))
    assert better != [low]
    assert fed_after(succeed, claim_again(better[0])) == [low]


def fed_after(act: Callable[[claims.Claim], Any], claim: claims.Claim) -> list[UUID]:
    act(claim)
    return fed()


@pytest.mark.parametrize("priority", [0, -5])
def test_equals_and_betters_are_left_alone(priority: int) -> None:
    low = a_queued_holder()
    waiting(High(), priority)
    assert (reconcile.preempt(), holder()) == (0, low)


def test_one_that_may_not_be_preempted_is_left_alone() -> None:
    high = a_queued_holder(Narrow())
    waiting(High(), 10)
    assert (reconcile.preempt(), holder()) == (0, high)


def test_how_often_is_declared_by_the_kind(settings: Any) -> None:
    once = a_queued_holder(Once())
    # Also under the old name of the kind.
    sql("UPDATE jobs_job SET kind = 'test.low_then' WHERE id = %s", [once])
    high = waiting(High(), 10)
    assert reconcile.preempt() == 1
    succeed(claim_again(high))
    assert fed() == [once]
    waiting(High(), 10)
    assert (reconcile.preempt(), holder()) == (0, once)


def test_a_running_holder_is_asked_as_often_as_its_kind_says() -> None:
    once = a_queued_holder(Once())
    claim = claim_again(once)
    high = waiting(High(), 10)
    assert reconcile.preempt() == 1
    settle(ended(claim, "preempted"))
    assert fed() == [high]
    succeed(claim_again(high))
    assert fed() == [once]
    claim_again(once)
    waiting(High(), 10)
    assert reconcile.preempt() == 0


def test_who_has_no_worker_takes_no_key() -> None:
    low = a_queued_holder()
    waiting(High(), 10, queue="nowhere")
    assert (reconcile.preempt(["default"]), holder()) == (0, low)


def test_an_urgent_one_under_a_limit_is_admitted_by_the_dispatcher() -> None:
    sync_limits()
    low = a_queued_holder()
    narrow = waiting(Narrow(), 10)
    assert reconcile.preempt() == 1
    assert (state(low), state(narrow), holder()) == ("pending", "pending", narrow)
    assert fed() == [narrow]
    assert slots.free_leaked() == []


@pytest.mark.parametrize("why", ["full", "closed", "no token"])
def test_who_may_not_start_now_takes_no_key(why: str) -> None:
    """Otherwise the two would take turns at the key, and neither begin."""
    sync_limits()
    low = a_queued_holder()
    if why == "full":
        other = a_job("pending", Narrow())
        assert fed() == [other]
    elif why == "closed":
        sql(
            "UPDATE jobs_limiter SET closed_until = jobs_clock() + interval '1 h' "
            "WHERE scope = 'kind:test.narrow_high'"
        )
    else:
        sql(
            "UPDATE jobs_limiter SET per_second = 0.001, burst = 1, tokens = 0, "
            "refilled_at = jobs_clock() WHERE scope = 'kind:test.narrow_high'"
        )
    narrow = waiting(Narrow(), 10)
    assert (reconcile.preempt(), holder()) == (0, low)
    sql("DELETE FROM jobs_limiter")
    assert (reconcile.preempt(), holder()) == (1, narrow)


def test_a_limit_of_the_kind_does_not_keep_a_running_holder() -> None:
    """Others may use its places up for ever; the urgent job is the first to have the next one."""
    sync_limits()
    low = a_queued_holder()
    claim = claim_again(low)
    other = a_job("pending", Narrow())
    assert fed() == [other]
    narrow = waiting(Narrow(), 10)
    assert reconcile.preempt() == 1
    settle(ended(claim, "preempted"))
    a_job("pending", Narrow())
    assert (holder(), fed()) == (narrow, [])
    succeed(claim_again(other))
    assert fed() == [narrow]


@pytest.mark.parametrize("runs", [True, False], ids=["running", "queued"])
def test_who_has_no_place_under_its_limit_key_takes_no_key(runs: bool) -> None:
    """It would have to give the key up again at once."""
    sync_limits()
    other = a_job("pending", PerKey(), limit_key="p")
    assert fed() == [other]
    low = a_queued_holder()
    if runs:
        claim_again(low)
    waiting(PerKey(), 10, limit_key="p")
    for _ in range(3):
        assert (reconcile.preempt(), fed()) == (0, [])
    assert (row(low).preemptions, holder()) == (0, low)
    succeed(claim_again(other))
    assert reconcile.preempt() == 1


def test_the_place_that_the_holder_leaves_counts_as_room() -> None:
    sql("INSERT INTO jobs_limiter (scope, at_once, is_declared) VALUES ('queue:default', 1, false)")
    low = a_queued_holder()
    high = waiting(High(), 10)
    assert reconcile.preempt() == 1
    assert (state(low), fed()) == ("pending", [high])


def test_an_urgent_one_that_is_cancelled_meanwhile_passes_the_key_on() -> None:
    low = a_queued_holder()
    high = waiting(High(), 10)
    reconcile.preempt()
    cancel(high, by="me")
    assert fed() == [low]


# ---- under load


@pytest.mark.django_db(transaction=True)
def test_a_claim_at_the_same_moment_is_asked_or_comes_too_late() -> None:
    executor = an_executor("default")
    for _ in range(30):
        low = a_queued_holder()
        high = waiting(High(), 10)
        claimed: list[claims.Claim] = []

        def claim(job_id: UUID = low, into: list[claims.Claim] = claimed) -> None:
            into += claims.claim("default", [job_id], executor, WORKER)

        at_once([reconcile.preempt, claim])
        if claimed:
            reconcile.preempt()  # the first one may have met the lock of the claim
            assert (row(low).preempted_by, holder()) == (high, low)
            settle(ended(claimed[0], "preempted"))
        assert (state(low), holder()) == ("pending", high)
        cancel(low, by="me")
        cancel(high, by="me")
        assert holder() is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", [1, 2])
def test_under_load_a_key_has_one_holder_and_every_job_ends(seed: int) -> None:
    draw = random.Random(seed)
    jobs.enqueue_many(
        jobs.Draft(
            draw.choice([Low(), High()]),
            queue=draw.choice(["q1", "q2"]),
            priority=draw.randint(-100, 100),
            exclusive=f"k{draw.randrange(4)}",
            max_attempts=1000,
        )
        for _ in range(160)
    )
    queues = ["q1", "q2"]
    owners = {queue: an_executor(queue) for queue in queues}

    def disturb(_: random.Random) -> None:
        """Claim the jobs that are queued in a holder's place from the list in Redis."""
        reconcile.preempt()
        for queue, ids in rq.take(queues, 10).items():
            for claim in claims.claim(queue, ids, owners[queue], WORKER):
                succeed(claim)

    grind(queues, seed=seed, endings=["released", "held", "preempted"], disturb=disturb)
    assert most_at_once("exclusive_key") == 1
    assert sql("SELECT 1 FROM jobs_slot") == []
    assert sql("SELECT 1 FROM jobs_job WHERE preemptions > 0 LIMIT 1"), "nobody was preempted"
