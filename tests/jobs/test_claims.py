"""Claiming: of all who know a job's id, one runs it, and only when it is to be run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from jobs.engine import claims
from jobs.engine.claims import Claim
from jobs.ids import uuid7
from jobs.outcomes import Counters
from jobs.states import JobState
from tests.jobs.factories import WORKER, a_job, an_executor, ended, row, settle, sql, state
from tests.specimens.handlers import Echo

pytestmark = pytest.mark.django_db


def claim(*ids: object, queue: str = "default") -> list[Claim]:
    return claims.claim(queue, ids, uuid7(), WORKER)  # type: ignore[arg-type]


def test_a_claim_makes_the_job_its_executors() -> None:
    job_id = a_job("queued", Echo(text="hé"), tenant="acme", priority=7, correlation_id="c-1")
    owner = an_executor()
    [mine] = claims.claim("default", [job_id], owner, WORKER)
    job = row(job_id)
    assert (job.state, job.owner, job.token, job.attempt) == ("running", owner, mine.token, 1)
    assert job.started_at is not None
    assert job.history[-1][1:4] == ["queued", "running", WORKER]
    assert (mine.id, mine.kind, mine.queue, mine.attempt) == (job_id, "test.echo", "default", 1)
    assert (mine.tenant, mine.priority, mine.correlation_id) == ("acme", 7, "c-1")
    assert (mine.payload, mine.payload_version) == ('{"text": "hé"}', 1)
    assert mine.counters == Counters(0, 0, 0, 5)
    assert mine.timeout == 300.0


def test_a_job_is_claimed_once() -> None:
    job_id = a_job("queued")
    [first] = claim(job_id)
    assert claim(job_id) == []
    assert row(job_id).token == first.token


@pytest.mark.parametrize("other", sorted(set(JobState) - {JobState.QUEUED}))
def test_only_a_queued_job_is_claimed(other: JobState) -> None:
    job_id = a_job(other)
    before = row(job_id).attempt
    assert claim(job_id) == []
    assert (state(job_id), row(job_id).attempt) == (other, before)


def test_a_job_of_another_queue_is_not_claimed() -> None:
    job_id = a_job("queued", queue="mail")
    assert claim(job_id) == []
    assert len(claim(job_id, queue="mail")) == 1


@pytest.mark.parametrize(
    ("columns", "claimable"),
    [
        ("expires_at = jobs_clock() - interval '1 ms'", False),
        ("expires_at = jobs_clock() + interval '1 min'", True),
        ("run_at = jobs_clock() + interval '1 min'", False),
        ("run_at = jobs_clock() - interval '1 min'", True),
        ("cancel_requested_at = jobs_clock()", False),
    ],
)
def test_a_job_that_must_not_run_now_is_not_claimed(columns: str, claimable: bool) -> None:
    job_id = a_job("queued")
    sql(f"UPDATE jobs_job SET {columns} WHERE id = %s", [job_id])  # noqa: S608
    assert len(claim(job_id)) == claimable
    assert row(job_id).attempt == claimable


def test_the_expiry_is_measured_by_the_databases_clock(
    set_clock: Callable[[datetime | None], None],
) -> None:
    start = datetime(2040, 1, 1, tzinfo=UTC)
    set_clock(start)
    job_id = a_job("queued", expires=60)
    set_clock(start + timedelta(seconds=60))
    assert claim(job_id) == []
    set_clock(start + timedelta(seconds=59))
    assert len(claim(job_id)) == 1


def test_a_batch_takes_what_is_to_be_had() -> None:
    good = [a_job("queued") for _ in range(3)]
    ids = [good[0], uuid4(), a_job(), good[1], a_job("succeeded"), good[2], good[0]]
    assert sorted(c.id for c in claim(*ids)) == sorted(good)
    assert claim() == []


def test_attempts_count_up_and_never_back() -> None:
    job_id = a_job("queued")
    for expected, ending in enumerate(("released", "snoozed", "failed", "crashed"), 1):
        [mine] = claim(job_id)
        assert mine.attempt == expected
        settle(ended(mine, ending))  # type: ignore[arg-type]
        sql(
            "UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock(), "
            "run_at = jobs_clock() WHERE id = %s",
            [job_id],
        )
    [mine] = claim(job_id)
    assert (mine.attempt, mine.counters) == (5, Counters(1, 1, 1, 5))


def test_each_claim_has_a_fresh_token() -> None:
    tokens = {claim(a_job("queued"))[0].token for _ in range(5)}
    assert len(tokens) == 5
