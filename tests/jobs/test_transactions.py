"""Enqueue joins the caller's transaction: after a rollback nothing is there and nothing pushed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction

import jobs
from jobs.engine import rq, wire
from jobs.models import Job
from tests.jobs.crowd import at_once, outcome
from tests.jobs.factories import somebody_waits
from tests.specimens.handlers import Noop
from tests.wait import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


class Rollback(Exception):
    """Somebody's reason to roll back."""


@pytest.fixture
def open_queue(queue: str) -> str:
    rq.set_open(queue, 30)
    return queue


@pytest.fixture
def put(open_queue: str) -> Callable[[], UUID]:
    """Enqueues a job that is born queued."""
    return lambda: jobs.enqueue(Noop(), queue=open_queue).id


def there() -> set[UUID]:
    return set(Job.objects.values_list("id", flat=True))


Put = Callable[[], UUID]


def test_nothing_is_pushed_before_the_commit(put: Put, open_queue: str) -> None:
    with transaction.atomic():
        job_id = put()
        assert rq.listed(open_queue) == set()
    assert rq.listed(open_queue) == there() == {job_id}


def test_in_autocommit_the_push_is_immediate(put: Put, open_queue: str) -> None:
    job_id = put()
    assert rq.listed(open_queue) == there() == {job_id}


WAYS: dict[str, Callable[[str], object]] = {
    "born queued": lambda queue: jobs.enqueue(Noop(), queue=queue),
    "pending": lambda queue: jobs.enqueue(Noop(), queue=queue + ".closed"),
    "delayed": lambda queue: jobs.enqueue(Noop(), queue=queue, delay=60),
    "soon": lambda queue: jobs.enqueue(Noop(), queue=queue, delay=0.01),
    "chosen id": lambda queue: jobs.enqueue(Noop(), queue=queue, job_id=uuid4()),
    "many": lambda queue: jobs.enqueue_many([jobs.Draft(Noop(), queue=queue)] * 3),
}


@pytest.mark.parametrize("way", WAYS)
def test_after_a_rollback_nothing_is_there(
    way: str, open_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(wire.Wire, "run", lambda *a: calls.append(a))
    with pytest.raises(Rollback), transaction.atomic():
        WAYS[way](open_queue)
        assert Job.objects.exists()
        raise Rollback
    assert there() == set() and calls == []


@pytest.mark.parametrize("way", WAYS)
def test_after_a_rolled_back_savepoint_nothing_is_there(
    way: str, open_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(wire.Wire, "run", lambda *a: calls.append(a))
    with transaction.atomic(), pytest.raises(Rollback), transaction.atomic():
        WAYS[way](open_queue)
        raise Rollback
    assert there() == set() and calls == []


def test_a_rolled_back_savepoint_takes_only_its_own(put: Put, open_queue: str) -> None:
    kept = []
    with transaction.atomic():
        kept.append(put())
        with pytest.raises(Rollback), transaction.atomic():
            put()
            with transaction.atomic():
                put()
            put()
            raise Rollback
        kept.append(put())
        with transaction.atomic():
            kept.append(put())
            with pytest.raises(Rollback), transaction.atomic():
                put()
                raise Rollback
            kept.append(put())
        kept.append(put())
    assert rq.listed(open_queue) == there() == set(kept)
    assert len(kept) == 5


def test_a_savepoint_that_is_kept_rolls_back_with_its_transaction(
    put: Put, open_queue: str
) -> None:
    with pytest.raises(Rollback), transaction.atomic():
        with transaction.atomic():
            put()
        raise Rollback
    assert rq.listed(open_queue) == there() == set()


def test_the_pushes_of_a_transaction_are_one(
    put: Put, open_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: list[Any] = []
    real = rq.pushing

    def counting(queue: str, ids: Any) -> Any:
        pushed.append(ids)
        return real(queue, ids)

    monkeypatch.setattr(rq, "pushing", counting)
    with transaction.atomic():
        ids = [put() for _ in range(20)]
    assert pushed == [ids]


def test_a_callback_of_somebody_else_in_between_loses_nothing(put: Put, open_queue: str) -> None:
    heard: list[int] = []
    with transaction.atomic():
        first = put()
        transaction.on_commit(lambda: heard.append(1))
        second = put()
    assert rq.listed(open_queue) == {first, second} and heard == [1]


def test_a_broken_callback_of_somebody_else_costs_no_push(put: Put, open_queue: str) -> None:
    def broken() -> None:
        raise Rollback

    with pytest.raises(Rollback), transaction.atomic():
        put()
        transaction.on_commit(broken)
    assert rq.listed(open_queue) == there()


def test_after_a_refusal_the_transaction_goes_on(put: Put) -> None:
    with transaction.atomic():
        first = put()
        with pytest.raises(jobs.errors.DuplicateJob):
            jobs.enqueue(Noop(), job_id=first)
        with pytest.raises(jobs.errors.InvalidOption):
            jobs.enqueue(Noop(), priority=1000)
        with pytest.raises(jobs.errors.DuplicateJob):
            jobs.enqueue_many([jobs.Draft(Noop()), jobs.Draft(Noop(), job_id=first)])
        second = put()
    assert there() == {first, second}


def test_a_transaction_of_its_own_that_another_does_not_see_yet(put: Put) -> None:
    seen: list[int] = []

    def look() -> None:
        try:
            seen.append(Job.objects.count())
        finally:
            connection.close()

    with transaction.atomic():
        put()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [0] and Job.objects.count() == 1


@pytest.mark.parametrize("many", [False, True])
def test_of_two_who_choose_the_same_id_at_once_one_gets_it(many: bool) -> None:
    mine, answers = uuid4(), []

    def rival() -> None:
        try:
            if many:
                jobs.enqueue_many([jobs.Draft(Noop()), jobs.Draft(Noop(), job_id=mine)])
            else:
                jobs.enqueue(Noop(), job_id=mine)
            answers.append("in")
        except jobs.errors.DuplicateJob as error:
            answers.append(str(error.job_id))
        finally:
            connection.close()

    thread = threading.Thread(target=rival)
    with transaction.atomic():
        jobs.enqueue(Noop(), job_id=mine)
        thread.start()
        wait_until(somebody_waits, message="the rival does not wait for us")
    thread.join()
    assert answers == [str(mine)]
    assert there() == {mine}


def test_who_waits_for_another_thread_lets_it_go_on() -> None:
    """A wait in the database that kept the interpreter's lock would never end."""
    chosen = uuid4()
    has_written = threading.Event()

    def first() -> None:
        with transaction.atomic():
            jobs.enqueue(Noop(), job_id=chosen)
            has_written.set()
            wait_until(somebody_waits)

    def second() -> str:
        has_written.wait(30)
        with transaction.atomic():
            return type(outcome(lambda: jobs.enqueue(Noop(), job_id=chosen))()).__name__

    assert at_once([first, second]) == [None, "DuplicateJob"]


def test_a_push_that_breaks_is_logged_and_costs_the_caller_nothing(
    put: Put, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(rq, "pushing", broken)
    with transaction.atomic():
        first = put()
    second = put()
    assert there() == {first, second}
    assert ["_Outgoing in on_commit()" in told for told in caplog.messages] == [True, True]
