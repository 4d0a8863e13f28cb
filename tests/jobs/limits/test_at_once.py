"""Never more at once than was declared, whoever dispatches."""

from __future__ import annotations

import random
from typing import Any

import pytest

import jobs
from jobs.engine import claims
from jobs.engine.admission import sync_limits
from jobs.limits import Limit
from tests.jobs.factories import (
    WORKER,
    a_job,
    an_executor,
    claim_again,
    ended,
    row,
    settle,
    sql,
    succeed,
)
from tests.jobs.limits.kinds import A, B, Declare, end, fed, many
from tests.jobs.mill import grind, most_at_once
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("live", ["queued", "running"])
def test_no_more_of_a_kind_at_once(declare: Declare, live: str) -> None:
    declare(A, concurrency=3)
    many(A(), 10)
    first = fed()
    assert len(first) == 3
    if live == "running":
        claims.claim("default", first, an_executor(), WORKER)
    many(Noop(), 2)
    assert len(fed()) == 2, "other kinds go on"
    assert fed() == []
    if live == "running":
        assert succeed(*claims.claimed(row(first[0]).token, first[:2])) == set(first[:2])  # type: ignore[arg-type]
        assert len(fed()) == 2


def test_a_kind_has_one_limit_over_all_queues(declare: Declare) -> None:
    declare(A, concurrency=3)
    many(A(), 5)
    many(A(), 5, queue="other")
    assert len(fed(2)) == 2
    assert len(fed(queue="other")) == 1
    assert fed() == []


def test_no_more_of_a_queue_at_once(settings: Any) -> None:
    settings.JOBS = {"QUEUES": {"default": Limit(at_once=2)}}
    sync_limits()
    many(Noop(), 5)
    first = fed()
    assert len(first) == 2
    end(first[0])
    assert len(fed()) == 1


def test_no_more_of_a_key_at_once_and_each_end_lets_the_best_go(declare: Declare) -> None:
    declare(A, per_key=Limit(at_once=2))
    made = [a_job("pending", A(), limit_key="x", priority=p) for p in (3, 2, 1, 0)]
    others = many(A(), 2, limit_key="y") + many(A(), 3)
    assert set(fed()) == {*made[:2], *others}
    assert [row(j).wait for j in made[2:]] == [2, 2]
    best = a_job("pending", A(), limit_key="x", priority=50)
    assert fed() == []
    end(made[0])
    assert fed() == [best]
    settle(ended(claim_again(made[1]), "snoozed", floor=60))
    assert fed() == [made[2]]


_NO_ROW = """
CREATE FUNCTION no_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER no_row BEFORE INSERT ON jobs_limiter FOR EACH ROW WHEN (NEW.key = 'x')
  EXECUTE FUNCTION no_row()
"""


def test_nothing_goes_where_the_row_of_a_key_was_removed_meanwhile(declare: Declare) -> None:
    declare(A, per_key=Limit(at_once=1))
    many(A(), 3, limit_key="x")
    sql(_NO_ROW)
    assert fed() == []
    sql("DROP TRIGGER no_row ON jobs_limiter")
    assert len(fed()) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", [1, 2])
def test_several_dispatchers_never_exceed_a_limit(declare: Declare, seed: int) -> None:
    _race(declare, seed, 150)


@pytest.mark.timeout(400)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("seed", "number"),
    [pytest.param(11, 1000, marks=pytest.mark.slow),
     *(pytest.param(seed, 2000, marks=pytest.mark.soak) for seed in (12, 13))],
)  # fmt: skip
def test_several_dispatchers_never_exceed_a_limit_in_thousands(
    declare: Declare, seed: int, number: int
) -> None:
    _race(declare, seed, number)


def _race(declare: Declare, seed: int, number: int) -> None:
    declare(A, concurrency=3, per_key=Limit(at_once=2), max_attempts=1000)
    declare(B, per_key=Limit(at_once=1), max_attempts=1000)
    sql("INSERT INTO jobs_limiter (scope, at_once, is_declared) VALUES ('queue:q2', 4, false)")
    draw = random.Random(seed)
    queues = ["q1", "q2", "q3"]
    jobs.enqueue_many(
        jobs.Draft(
            draw.choice([A, B])(),
            queue=draw.choice(queues),
            tenant=draw.choice("abc"),
            priority=draw.randint(-9, 9),
            limit_key=draw.choice(["x", "y", ""]),
            exclusive=draw.choice(["", "", "k1", "k2"]),
        )
        for _ in range(number)
    )
    grind(queues, threads=5, seed=seed, seconds=200, endings=["released", "snoozed", "failed"])
    assert 1 <= most_at_once("CASE WHEN kind = 'test.a' THEN kind END") <= 3
    assert 1 <= most_at_once("CASE WHEN queue = 'q2' THEN queue END") <= 4
    assert 1 <= most_at_once("CASE WHEN kind = 'test.a' THEN limit_key END") <= 2
    assert most_at_once("CASE WHEN kind = 'test.b' THEN limit_key END") == 1
    assert most_at_once("exclusive_key") == 1


def test_a_round_touches_no_more_jobs_than_there_is_room_for(declare: Declare) -> None:
    declare(A, concurrency=2)
    for n in range(9):
        many(A(), 3, tenant=f"tenant-{n}")
    gone = fed()
    assert len(gone) == 2
    # A row that somebody has locked or changed says who.
    [(touched,)] = sql(
        "SELECT count(*) FROM jobs_job WHERE state = 'pending' AND xmax::text <> '0'"
    )
    assert touched == 0
    served = []
    for _ in range(9):
        served += [row(job_id).tenant for job_id in gone]
        for job_id in gone:
            end(job_id)
        gone = fed()
    assert served[:9] == sorted(set(served)), "each has had its turn before anybody has another"
    assert served[9:18] == served[:9]
