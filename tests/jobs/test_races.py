"""Several connections at once: one wins, nobody dies of a deadlock, nothing is written twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, InternalError, connection, transaction

from jobs.engine import claims, leases, sql
from jobs.ids import uuid7
from jobs.models import Attempt
from tests.jobs.factories import (
    WORKER,
    a_claim,
    a_job,
    an_executor,
    ended,
    move,
    row,
    settle,
    somebody_waits,
    state,
    succeed,
)
from tests.jobs.factories import sql as run
from tests.wait import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


class Others:
    """Threads with connections of their own; their answers in the order of their start."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._answers: dict[int, Any] = {}

    def start(self, act: Callable[[], Any]) -> None:
        number = len(self._threads)

        def body() -> None:
            try:
                self._answers[number] = act()
            except Exception as error:
                self._answers[number] = error
            finally:
                connection.close()

        self._threads.append(threading.Thread(target=body))
        self._threads[-1].start()

    def answers(self) -> list[Any]:
        for thread in self._threads:
            thread.join(30)
        return [self._answers[number] for number in range(len(self._threads))]


@pytest.fixture
def others() -> Others:
    return Others()


@contextmanager
def another_session() -> Iterator[psycopg.Connection[Any]]:
    """A connection of somebody else, in a transaction."""
    parameters = connection.get_connection_params()
    parameters.pop("cursor_factory", None)
    parameters.pop("context", None)
    with psycopg.connect(**parameters) as session:
        yield session
        session.rollback()


LOCK = "SELECT 1 FROM jobs_job WHERE id = %s FOR UPDATE"


def test_of_many_who_claim_the_same_jobs_each_job_has_one(others: Others) -> None:
    ids = [a_job("queued") for _ in range(30)]
    barrier = threading.Barrier(6)

    def claim(order: list[Any]) -> list[Any]:
        barrier.wait(10)
        owner = an_executor()
        return [c.id for c in claims.claim("default", order, owner, WORKER)]

    for number in range(6):
        order = ids[number:] + ids[:number]
        others.start(lambda order=order: claim(order))  # type: ignore[misc]
    taken = [job_id for answer in others.answers() for job_id in answer]
    assert sorted(taken) == sorted(ids)
    assert {row(job_id).attempt for job_id in ids} == {1}


def test_a_claim_that_waited_for_a_rival_comes_too_late(others: Others) -> None:
    job_id = a_job("queued")
    with transaction.atomic():
        [mine] = claims.claim("default", [job_id], an_executor(), WORKER)
        others.start(lambda: claims.claim("default", [job_id], uuid7(), "rival"))
        wait_until(somebody_waits)
    assert others.answers() == [[]]
    assert row(job_id).token == mine.token


def test_a_claim_that_waited_for_a_rollback_gets_the_job(others: Others) -> None:
    job_id = a_job("queued")
    with transaction.atomic():
        claims.claim("default", [job_id], an_executor(), WORKER)
        others.start(lambda: claims.claim("default", [job_id], uuid7(), "rival"))
        wait_until(somebody_waits)
        transaction.set_rollback(True)
    [[theirs]] = others.answers()
    assert (row(job_id).token, row(job_id).attempt) == (theirs.token, 1)


def test_a_claim_that_waited_for_a_cancel_comes_too_late(others: Others) -> None:
    job_id = a_job("queued")
    with transaction.atomic():
        move(job_id, "cancelled")
        others.start(lambda: claims.claim("default", [job_id], uuid7(), WORKER))
        wait_until(somebody_waits)
    assert (others.answers(), state(job_id)) == ([[]], "cancelled")


def test_a_result_that_waited_for_the_burial_is_refused(others: Others) -> None:
    claim = a_claim()
    with transaction.atomic():
        leases.bury(row(claim.id).owner, WORKER, {}, "gone")  # type: ignore[arg-type]
        others.start(lambda: succeed(claim))
        others.start(lambda: settle(ended(claim)))
        wait_until(somebody_waits)
    assert others.answers() == [set(), {}]
    assert (state(claim.id), Attempt.objects.count()) == ("pending", 0)


def test_a_burial_that_waited_for_the_result_leaves_it(others: Others) -> None:
    claim = a_claim()
    owner = row(claim.id).owner
    assert owner is not None
    with transaction.atomic():
        succeed(claim)
        others.start(lambda: leases.bury(owner, WORKER, {}, "gone"))
        wait_until(somebody_waits)
    assert (others.answers(), state(claim.id)) == ([{}], "succeeded")


def test_two_reapers_share_the_work_without_waiting(others: Others) -> None:
    held = [a_claim() for _ in range(4)]
    run("UPDATE jobs_lease SET dead_at = jobs_clock(), until = jobs_clock() - interval '1 min'")
    with transaction.atomic():
        first = leases.reap("one", limit=2)
        others.start(lambda: leases.reap("two"))
        [second] = others.answers()
    assert (len(first), len(second)) == (2, 2)
    assert {*first, *second} == {claim.id for claim in held}


def test_two_dispatchers_pass_each_other_by(others: Others) -> None:
    for _ in range(4):
        a_job()
    run("INSERT INTO jobs_queue (name) VALUES ('default')")
    feed = "SELECT id FROM jobs_dispatch('default', 2, 10, '{}')"
    with transaction.atomic():
        first = run(feed)
        others.start(lambda: run(feed))
        assert others.answers() == [[]]
    assert len(first) == 2 and len(run(feed)) == 2


# ---- Deadlocks and other refusals that pass


LOOK_FOR_DEADLOCKS = """
SELECT set_config('deadlock_timeout', %s, false) WHERE current_setting('is_superuser') = 'on'
"""  # others may not set it: theirs is a second


def test_a_claim_survives_a_deadlock(others: Others) -> None:
    low, high = sorted(a_job("queued") for _ in range(2))
    tries: list[int] = []

    def claim() -> list[Any]:
        # PostgreSQL looks for a deadlock once per wait: late enough for the rival to be in it.
        run(LOOK_FOR_DEADLOCKS, ["500ms"])
        real = sql.bound_rows

        def counting(*arguments: Any) -> Any:
            tries.append(1)
            return real(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sql, "bound_rows", counting)
            return claims.claim("default", [high, low], uuid7(), WORKER)

    with another_session() as rival:
        rival.execute(LOOK_FOR_DEADLOCKS, ["20s"])
        rival.execute(LOCK, [high])
        others.start(claim)
        wait_until(somebody_waits)
        # The claim holds the lower id and waits for ours: now we want the lower one as well.
        rival.execute(LOCK, [low])
    [taken] = others.answers()
    assert sorted(c.id for c in taken) == [low, high]
    assert len(tries) >= 2 and {row(low).attempt, row(high).attempt} == {1}


REFUSAL = "DO $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '%s'; END $$"


@pytest.mark.parametrize(
    ("code", "tries"), [("40P01", 3), ("40001", 3), ("55P03", 3), ("23514", 1), ("22003", 1)]
)
def test_what_may_pass_is_tried_again_and_nothing_else(code: str, tries: int) -> None:
    made: list[int] = []

    def write() -> str:
        made.append(1)
        if len(made) < 3:
            run(REFUSAL % code)
        return "written"

    if tries == 3:
        assert sql.repeating(write) == "written"
    else:
        with pytest.raises(DatabaseError, match="not now"):
            sql.repeating(write)
    assert len(made) == tries


def test_within_a_transaction_nothing_is_repeated() -> None:
    made: list[int] = []

    def write() -> None:
        made.append(1)
        run(REFUSAL % "40001")

    with pytest.raises(DatabaseError), transaction.atomic():
        sql.repeating(write)
    assert len(made) == 1


def test_it_is_not_tried_for_ever() -> None:
    made: list[int] = []

    def write() -> None:
        made.append(1)
        run(REFUSAL % "40001")

    with pytest.raises(DatabaseError, match="not now"):
        sql.repeating(write)
    assert len(made) == 8


def test_a_lost_connection_is_told_from_a_refusal() -> None:
    with another_session() as killer:
        [(pid,)] = run("SELECT pg_backend_pid()")
        killer.execute("SELECT pg_terminate_backend(%s)", [pid])
        with pytest.raises(DatabaseError) as caught:
            wait_until(lambda: run("SELECT 1") == [])
    assert sql.is_disconnected(caught.value)
    sql.close()
    with pytest.raises(DatabaseError) as refused:
        run(REFUSAL % "23514")
    assert not sql.is_disconnected(refused.value)
    # What the driver says of answers that make no sense, as of a pooler whose server has gone.
    assert sql.is_disconnected(InternalError("received 2 results from command 'BEGIN'"))
