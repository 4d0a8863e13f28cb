"""A handler says that it is too much, and nothing is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs.context import Signal
from jobs.engine import claims, closures, runner, settler, slots
from jobs.engine.admission import Closing, close, sync_limits
from jobs.engine.dispatch import promote
from jobs.engine.withdrawal import withdraw
from jobs.limits import Limit
from jobs.outcomes import RateLimited
from tests.jobs.factories import (
    WORKER,
    an_executor,
    claim_again,
    ended,
    row,
    settle,
    sql,
    state,
)
from tests.jobs.limits.kinds import NOW, SECOND, A, B, Declare, SetClock, fed, limiters, many

pytestmark = pytest.mark.django_db


def limited(seconds: float, scope: Any = "kind") -> Callable[[jobs.Context], None]:
    def do(ctx: jobs.Context) -> None:
        raise RateLimited(seconds, scope)

    return do


def attempt(job_id: UUID) -> None:
    claim = claim_again(job_id)
    outcome = runner.run(claim, Signal(str), lambda c, s: None, WORKER)
    assert isinstance(outcome, claims.Ended)
    settler.write([outcome], WORKER)


@pytest.mark.parametrize(
    ("scope", "closed", "others"),
    [
        ("kind", "kind:test.a", {"queue", "key"}),
        ("queue", "queue:default", {"kind", "key"}),
        ("key", "key:test.a|x", {"kind", "queue"}),
    ],
)
def test_rate_limited_closes_its_scope_for_everyone(
    declare: Declare, set_clock: SetClock, scope: str, closed: str, others: set[str]
) -> None:
    set_clock(NOW)
    declare(A, limited(30, scope), per_key=Limit(at_once=5))
    declare(B, per_key=Limit(at_once=5))
    [first] = many(A(), 1, limit_key="x")
    fed()
    attempt(first)
    job = row(first)
    assert (job.state, job.run_at, job.failures) == ("pending", NOW + 30 * SECOND, 0)
    assert job.history[-1][4] == "rate limited for 30 s"
    assert sql("SELECT closed_until FROM jobs_limiter WHERE scope = %s", [closed]) == [
        (NOW + 30 * SECOND,)
    ]
    alike = many(A(), 1, limit_key="x")
    free = {
        "kind": many(B(), 1),
        "queue": many(A(), 1, queue="other", limit_key="z"),
        "key": many(A(), 1, limit_key="y"),
    }
    expected = {job_id for what in others for job_id in free[what]}
    if scope == "queue":
        expected -= {*free["kind"], *free["key"]}
        expected |= {*free["queue"]}
    if scope == "kind":
        expected = set(free["kind"])
    if scope == "key":
        expected = {job_id for ids in free.values() for job_id in ids}
    assert {*fed(), *fed(queue="other")} == expected
    set_clock(NOW + 30 * SECOND)
    promote()
    assert set(alike) <= {*fed(), *fed(queue="other")}
    assert state(first) == "queued"


def test_what_was_admitted_before_the_closing_goes_back(
    declare: Declare, set_clock: SetClock
) -> None:
    set_clock(NOW)
    declare(A, limited(30), concurrency=5)
    first, second = many(A(), 2)
    assert fed() == [first, second]
    attempt(first)
    assert claims.claim("default", [second], an_executor(), WORKER) == []
    assert withdraw(WORKER) == 1
    assert fed() == []
    set_clock(NOW + 30 * SECOND)
    promote()
    assert set(fed()) == {first, second}


def test_a_kind_without_limits_can_be_closed_and_its_row_goes_afterwards(
    declare: Declare, set_clock: SetClock
) -> None:
    set_clock(NOW)
    declare(A, limited(30))
    [first] = many(A(), 1)
    fed()
    assert closures.lets_be_born_queued("default")
    attempt(first)
    assert not closures.lets_be_born_queued("default")
    sync_limits()
    many(A(), 3)
    assert fed() == []
    set_clock(NOW + 30 * SECOND)
    sync_limits()
    assert limiters() == {}
    promote()
    assert len(fed()) == 4


def test_the_longest_closing_counts() -> None:
    for seconds in (5.0, 60.0, 10.0):
        close([Closing("kind:x", "default", None, None, seconds)] * 2)
    [(left,)] = sql(
        "SELECT extract(epoch FROM closed_until - jobs_clock())::float8 FROM jobs_limiter"
    )
    assert 59 < left <= 60


def test_a_job_without_a_key_waits_alone(declare: Declare, set_clock: SetClock) -> None:
    set_clock(NOW)
    declare(A, limited(30, "key"))
    first, second = many(A(), 2)
    fed()
    attempt(first)
    assert limiters() == {}
    assert row(first).run_at == NOW + 30 * SECOND
    assert len(claims.claim("default", [second], an_executor(), WORKER)) == 1


def test_a_claim_that_was_lost_closes_nothing(declare: Declare) -> None:
    declare(A, limited(30))
    [first] = many(A(), 1)
    fed()
    claim = claim_again(first)
    outcome = runner.run(claim, Signal(str), lambda c, s: None, WORKER)
    settle(ended(claim, "released"))
    settler.write([outcome], WORKER)  # type: ignore[list-item]
    assert limiters() == {}


@pytest.mark.django_db(transaction=True)
def test_a_closed_key_without_a_running_job_opens_again(
    declare: Declare, set_clock: SetClock
) -> None:
    set_clock(NOW)
    declare(A, per_key=Limit(at_once=1))
    close([Closing("key:test.a|x", "default", "test.a", "x", 30)])
    made = many(A(), 2, limit_key="x")
    assert fed() == []
    assert slots.wake_limited() == 0
    set_clock(NOW + 30 * SECOND)
    promote()
    assert fed() == made[:1]
