"""Exclusive keys: at most one queued or running job each, and nobody waits for a free one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction

import jobs
from jobs import registry
from jobs.engine import claims, reconcile, slots
from jobs.engine.admission import sync_limits
from jobs.engine.dispatch import admit, know_queues, promote
from jobs.limits import Limit, Unique
from jobs.operate.cancel import cancel
from tests.jobs.crowd import at_once
from tests.jobs.factories import a_job, claim_again, ended, move, row, settle, sql, state, succeed
from tests.jobs.mill import grind, most_at_once
from tests.specimens.handlers import Fail, Noop

pytestmark = pytest.mark.django_db
NOW = datetime(2040, 5, 6, tzinfo=UTC)
SetClock = Callable[[datetime | None], None]


class Low(jobs.Payload, kind="test.low"):
    pass


class High(jobs.Payload, kind="test.high"):
    pass


@pytest.fixture
def kinds() -> Iterator[None]:
    """High pushes Low aside."""

    @jobs.handler(Low, preemptible=True)
    def low(ctx: jobs.Context, payload: Low) -> None: ...

    @jobs.handler(High, preempts=True)
    def high(ctx: jobs.Context, payload: High) -> None: ...

    yield
    registry.unregister("test.low")
    registry.unregister("test.high")


@pytest.fixture(autouse=True)
def known(db: None) -> None:
    know_queues({"default", "other"})


def waiting(key: str = "k", payload: jobs.Payload | None = None, **options: Any) -> UUID:
    return a_job("pending", payload, exclusive=key, **options)


def fed(budget: int = 10, queue: str = "default") -> list[UUID]:
    return admit(queue, budget)


def holder(key: str = "k") -> UUID | None:
    found = sql("SELECT job_id FROM jobs_slot WHERE key = %s", [key])
    return found[0][0] if found else None


def forgotten() -> list[Any]:
    """Jobs that wait for a key that nobody holds and nobody is about to take."""
    return sql(
        "SELECT j.id FROM jobs_job j WHERE j.state = 'pending' AND j.wait = 2 "
        "AND j.exclusive_key IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM jobs_slot s WHERE s.key = j.exclusive_key) "
        "AND NOT EXISTS (SELECT 1 FROM jobs_job o WHERE o.exclusive_key = j.exclusive_key "
        "AND o.state = 'pending' AND o.wait = 0)"
    )


# ---- One at a time


def test_one_of_a_key_goes_and_the_others_wait_for_it() -> None:
    first, second, third = (waiting() for _ in range(3))
    free, other = a_job(), waiting("K")
    assert set(fed()) == {first, free, other}
    assert [row(j).wait for j in (second, third)] == [2, 2]
    assert fed() == [] and holder() == first


def test_a_key_is_one_for_all_queues_kinds_and_tenants() -> None:
    first = waiting()
    waiting(queue="other", payload=Fail(), tenant="t")
    assert fed() == [first]
    assert fed(queue="other") == []


@pytest.mark.parametrize("state", ["queued", "running"])
def test_the_database_refuses_a_second_one(state: str) -> None:
    first, second = waiting(), waiting()
    fed()
    if state == "running":
        move(first, "running")
    with pytest.raises(IntegrityError, match="jobs_job_exclusive"), transaction.atomic():
        move(second, "queued")


def test_the_best_of_a_key_goes_first() -> None:
    made = {p: waiting(priority=p) for p in (0, 50, -50)}
    gone = []
    for _ in range(3):
        [job_id] = fed()
        succeed(claim_again(job_id))
        gone.append(job_id)
    assert gone == [made[50], made[0], made[-50]]


# ---- A freed key


ENDINGS = ["success", "failed", "unrecoverable", "released", "snoozed", "lost", "crashed", "held"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_with_its_holders_attempt_the_key_passes_to_the_best_waiter(ending: Any) -> None:
    first = waiting(payload=Fail(), priority=100)
    assert fed() == [first]
    claim = claim_again(first)
    late, best, worse = waiting(), waiting(priority=9), waiting(priority=-9)
    assert fed() == []
    at_once = ending in ("released", "lost", "crashed")
    if ending == "success":
        succeed(claim)
    else:
        settle(ended(claim, ending, floor=0.0 if at_once else 600.0))
    assert [row(j).wait for j in (best, late, worse)] == [0, 2, 2]
    # Who comes back at once and matters more is the best.
    assert fed() == [first if at_once else best]


def test_a_holder_that_is_cancelled_before_it_starts_frees_the_key() -> None:
    first, second = waiting(), waiting()
    assert fed() == [first]
    cancel(first, by="me")
    assert fed() == [second]


def test_a_holder_that_expires_before_it_starts_frees_the_key(set_clock: SetClock) -> None:
    set_clock(NOW)
    first, second = waiting(expires=10), waiting()
    assert fed() == [first]
    set_clock(NOW + timedelta(seconds=10))
    assert reconcile.expire("me") == 1
    assert fed() == [second]


@pytest.mark.parametrize("how", ["cancel", "expire"])
def test_a_waiter_that_was_woken_and_ends_leaves_its_turn_to_the_next(
    how: str, set_clock: SetClock
) -> None:
    set_clock(NOW)
    first, woken, third = waiting(), waiting(expires=10), waiting()
    assert fed() == [first]
    succeed(claim_again(first))
    assert (row(woken).wait, row(third).wait) == (0, 2)
    if how == "cancel":
        cancel(woken, by="me")
    else:
        set_clock(NOW + timedelta(seconds=10))
        assert reconcile.expire("me") == 1
    assert fed() == [third]


def test_a_key_that_waits_for_a_place_elsewhere_is_not_kept_from_others() -> None:
    class Both(jobs.Payload, kind="test.both"):
        pass

    @jobs.handler(Both, per_key=Limit(at_once=1))
    def both(ctx: jobs.Context, payload: Both) -> None: ...

    try:
        sync_limits()
        first = a_job("pending", Both(), limit_key="p", priority=9)
        assert fed() == [first]
        barred = a_job("pending", Both(), limit_key="p", exclusive="k", priority=9)
        free = waiting()
        assert fed() == [], "the one that had the key was refused a place"
        assert fed() == [free]
        assert (state(barred), row(barred).wait, holder()) == ("pending", 2, free)
    finally:
        registry.unregister("test.both")


# ---- Preemption


def preempted(holder_priority: int = 0) -> tuple[claims.Claim, UUID]:
    low = waiting(payload=Low(), priority=holder_priority)
    fed()
    claim = claim_again(low)
    high = waiting(payload=High(), priority=10)
    assert fed() == []
    return claim, high


def test_a_preempted_holder_hands_its_key_over(kinds: None) -> None:
    claim, high = preempted()
    rival = waiting(priority=100)
    assert fed() == [] and row(rival).wait == 2
    assert reconcile.preempt() == 1
    assert row(claim.id).preempted_by == high
    settle(ended(claim, "preempted"))
    assert holder() == high
    assert fed() == [high], "neither the rival nor the preempted one takes it in between"
    job = row(claim.id)
    assert (job.state, job.preemptions, job.failures, job.preempted_by) == ("pending", 1, 0, None)
    succeed(claim_again(high))
    assert fed() == [rival]


@pytest.mark.parametrize("end", ["success", "cancelled", "failed"])
def test_the_heir_gets_the_key_however_the_holder_ends(kinds: None, end: Any) -> None:
    claim, high = preempted()
    waiting(priority=100)
    fed()
    reconcile.preempt()
    if end == "success":
        succeed(claim)
    else:
        settle(ended(claim, end))
    assert (holder(), fed()) == (high, [high])


def test_an_heir_that_is_cancelled_inherits_nothing(kinds: None) -> None:
    claim, high = preempted()
    other = waiting()
    fed()
    reconcile.preempt()
    cancel(high, by="me")
    settle(ended(claim, "preempted", floor=60))
    assert fed() == [other]


def test_an_heir_that_is_cancelled_after_the_hand_over_passes_it_on(kinds: None) -> None:
    claim, high = preempted()
    other = waiting()
    fed()
    reconcile.preempt()
    settle(ended(claim, "preempted", floor=60))
    assert holder() == high
    cancel(high, by="me")
    assert fed() == [other]


def test_nobody_is_preempted_by_an_equal_or_too_often(kinds: None) -> None:
    claim, _ = preempted(holder_priority=10)
    assert reconcile.preempt() == 0
    sql("UPDATE jobs_job SET priority = 9, preemptions = 3 WHERE id = %s", [claim.id])
    assert reconcile.preempt() == 0
    sql("UPDATE jobs_job SET preemptions = 2 WHERE id = %s", [claim.id])
    assert (reconcile.preempt(), reconcile.preempt()) == (1, 0)


@pytest.mark.django_db(transaction=True)
def test_an_heir_that_is_cancelled_during_the_hand_over_leaves_no_dead_slot(kinds: None) -> None:
    know_queues({"default"})
    for _ in range(30):
        claim, high = preempted()
        other = waiting()
        fed()
        assert reconcile.preempt() == 1
        acts: list[Callable[[], Any]] = [
            partial(cancel, high, by="me"),
            partial(settle, ended(claim, "preempted", floor=60)),
        ]
        at_once(acts)
        assert fed() == [other]
        succeed(claim_again(other))
        cancel(claim.id, by="me")
        assert sql("SELECT 1 FROM jobs_slot") == []


# ---- No lost wake-up


@pytest.mark.django_db(transaction=True)
def test_a_finish_that_meets_the_dispatch_leaves_nobody_behind() -> None:
    """Thousands of encounters of one who leaves with one who comes."""
    know_queues({"default"})
    current = waiting()
    assert fed() == [current]
    stop = time.monotonic() + 12
    rounds = 0
    while time.monotonic() < stop and rounds < 300:
        claim = claim_again(current)
        newcomer = waiting()
        acts: list[Callable[[], Any]] = [partial(succeed, claim), fed]
        at_once(acts)
        assert forgotten() == []
        if state(newcomer) == "pending":
            assert fed() == [newcomer]
        current = newcomer
        rounds += 1
    assert rounds > 20


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", [1, 2])
def test_of_each_key_one_at_a_time_and_none_left(seed: int) -> None:
    _hammer(seed, jobs_=160, seconds=60)


@pytest.mark.timeout(400)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("seed", "number"),
    [pytest.param(11, 1000, marks=pytest.mark.slow),
     *(pytest.param(seed, 2500, marks=pytest.mark.soak) for seed in (12, 13))],
)  # fmt: skip
def test_of_each_key_one_at_a_time_and_none_left_of_thousands(seed: int, number: int) -> None:
    _hammer(seed, jobs_=number, seconds=240)


def _hammer(seed: int, jobs_: int, seconds: float) -> None:
    draw = random.Random(seed)
    queues = ["q1", "q2"]
    made = jobs.enqueue_many(
        jobs.Draft(
            Fail(),
            queue=draw.choice(queues),
            tenant=draw.choice("ab"),
            priority=draw.randint(-100, 100),
            exclusive=f"k{draw.randrange(5)}" if draw.random() < 0.9 else "",
            max_attempts=1000,
        )
        for _ in range(jobs_)
    )

    def disturb(thread: random.Random) -> None:
        if thread.random() < 0.3:
            job_id = thread.choice(made)
            if state(job_id) in ("pending", "queued"):
                try:
                    cancel(job_id, by="somebody")
                except jobs.JobsError:
                    return

    grind(
        queues,
        seed=seed,
        seconds=seconds,
        endings=["released", "snoozed", "lost", "held", "preempted"],
        disturb=disturb,
    )
    assert most_at_once("exclusive_key") == 1
    assert sql("SELECT 1 FROM jobs_slot") == []
    assert forgotten() == []


# ---- What was freed past the engine


@pytest.mark.django_db(transaction=True)
def test_a_leaked_slot_is_found_and_passed_on() -> None:
    know_queues({"default"})
    first, second = waiting(), waiting()
    assert fed() == [first]
    move(first, "cancelled")
    assert fed() == [] and holder() == first
    assert slots.free_leaked() == ["k"]
    assert fed() == [second]


def test_a_key_and_a_unique_key_go_together() -> None:
    first = jobs.enqueue(Noop(), unique=Unique("u"), exclusive="k").id
    assert fed() == [first]
    settle(ended(claim_again(first), "failed", floor=5))
    assert jobs.enqueue(Noop(), unique=Unique("u"), exclusive="k").id == first
    assert promote() == 0 and holder() is None


@pytest.mark.parametrize("key", ["a\x1fb", "x" * 201, 5, None, "\ud800"])
def test_a_wrong_key_is_refused(key: Any) -> None:
    with pytest.raises(jobs.errors.InvalidOption, match=r"^exclusive: "):
        jobs.enqueue(Noop(), exclusive=key)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM jobs_job")
        assert cursor.fetchone() == (0,)
