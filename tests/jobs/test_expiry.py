"""Jobs that expire: while they wait, or only before they have started, as their kind says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

import jobs
from jobs import registry
from jobs.engine import rq
from jobs.errors import HandlerError
from jobs.operate.doctor import violations
from jobs.testing import Clock, freeze_clock, run_jobs
from tests.jobs.factories import a_claim, ended, row, settle

pytestmark = pytest.mark.django_db
DAY = 86400


class Encode(jobs.Payload, kind="test.encode"):
    polls: int = 1


Register = Callable[..., None]


@pytest.fixture
def clock() -> Iterator[Clock]:
    with freeze_clock() as stopped:
        yield stopped


@pytest.fixture
def encode() -> Iterator[Register]:
    """Registers a kind that looks after work elsewhere, so often, and is slow about it."""

    def handle(ctx: jobs.Context, payload: Encode) -> None:
        if ctx.attempt <= payload.polls:
            raise jobs.Snooze(DAY)

    def register(function: Any = handle, **options: Any) -> None:
        given = {"expires": DAY / 2, "max_attempts": 3, "backoff": jobs.backoff.Fixed(DAY, "none")}
        jobs.handler(Encode, **{**given, **options})(function)

    yield register
    registry.unregister("test.encode")


def state(job: UUID) -> str:
    run_jobs()
    return row(job).state


@pytest.mark.parametrize(
    ("unless", "after"), [("started", "succeeded"), ("succeeded", "expired"), (None, "expired")]
)
def test_a_job_that_polls_expires_only_where_its_kind_says_so(
    encode: Register, clock: Clock, unless: Any, after: str
) -> None:
    encode(**({} if unless is None else {"expires_unless": unless}))
    job = jobs.enqueue(Encode(polls=3)).id
    assert state(job) == "pending"
    for _ in range(3):
        clock.tick(DAY + 1)
        last = state(job)
    assert last == after
    assert violations() == []


def test_one_that_has_not_started_expires_all_the_same(encode: Register, clock: Clock) -> None:
    encode(expires_unless="started")
    ids = jobs.enqueue_many([Encode(), jobs.Draft(Encode(), delay=DAY)])
    clock.tick(DAY / 2)
    assert {state(job) for job in ids} == {"expired"}
    assert row(ids[0]).attempt == 0


@pytest.mark.parametrize("ending", ["failed", "snoozed", "crashed", "lost", "released", "held"])
def test_nothing_unstarts_a_job(encode: Register, clock: Clock, ending: Any) -> None:
    encode(expires_unless="started")
    claim = a_claim(Encode())
    assert row(claim.id).expires_at is None
    settle(ended(claim, ending, floor=DAY))
    clock.tick(2 * DAY)
    assert state(claim.id) == "succeeded"


def test_whoever_retries_it_may_give_it_a_time_again(encode: Register, clock: Clock) -> None:
    def fail(ctx: jobs.Context, payload: Encode) -> None:
        raise jobs.Unrecoverable("no")

    encode(fail, expires_unless="started")
    job = jobs.enqueue(Encode()).id
    assert state(job) == "failed"
    jobs.retry(job, by="ann", expires=60)
    clock.tick(61)
    assert state(job) == "expired"


@pytest.mark.django_db(transaction=True)
def test_such_a_job_is_born_queued_like_any_other(encode: Register, queue: str) -> None:
    encode(expires_unless="started")
    rq.set_open(queue, 30)
    assert jobs.enqueue(Encode(), queue=queue).state == "queued"


def test_a_wrong_rule_is_refused() -> None:
    with pytest.raises(HandlerError, match="expires_unless must be 'started' or 'succeeded'"):
        jobs.handler(Encode, expires_unless="finished")(lambda ctx, payload: None)  # type: ignore[arg-type]


def test_the_claim_keeps_its_settings() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT proconfig FROM pg_proc WHERE proname = 'jobs_claim'")
        assert cursor.fetchall() == [
            (["plan_cache_mode=force_generic_plan", "enable_seqscan=off", "jit=off"],)
        ]
