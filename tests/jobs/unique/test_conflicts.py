"""A second job under a key takes the first one's place, or raises."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

import jobs
from jobs.engine.dispatch import promote
from jobs.errors import HandlerError, KeyConflict
from jobs.limits import Unique
from tests.jobs.factories import claim_again, ended, move, row, settle, sql
from tests.jobs.unique.entering import HOUR, NOW, SetClock, count, enqueue
from tests.specimens.handlers import Echo, Noop

# ---- Debounce


@pytest.mark.django_db
def test_a_waiting_job_takes_payload_priority_and_time_over(set_clock: SetClock) -> None:
    set_clock(NOW)
    first = enqueue("a", for_="waiting", delay=10, priority=5).id
    set_clock(NOW + timedelta(seconds=9))
    assert enqueue("b", for_="waiting", delay=10, priority=-5).id == first
    job = row(first)
    assert job.payload == {"text": "b"}
    assert (job.run_at, job.wait, job.priority) == (NOW + timedelta(seconds=19), 1, -5)
    assert job.rank == int(job.run_at.timestamp() * 1000) + 15_000
    set_clock(NOW + timedelta(seconds=10))
    assert promote() == 0, "its time has moved"
    set_clock(NOW + timedelta(seconds=19))
    assert promote() == 1
    assert enqueue("c", for_="waiting").id == first, "due, but nobody has begun it"
    assert (row(first).payload, row(first).wait) == ({"text": "c"}, 0)


@pytest.mark.django_db
def test_a_debounce_has_an_end(set_clock: SetClock) -> None:
    def again(text: str, **options: Any) -> Any:
        unique = Unique("k", "waiting", at_most=timedelta(seconds=25))
        return jobs.enqueue(Echo(text=text), unique=unique, **options).id

    set_clock(NOW)
    first = again("0", delay=10)
    for number, at in ((1, 19), (2, 25), (3, 25)):
        set_clock(NOW + timedelta(seconds=9 * number))
        if number == 3:  # by then its time has come
            assert promote() == 1
        assert again(str(number), delay=10) == first
        job = row(first)
        assert job.run_at == NOW + timedelta(seconds=at)
        assert job.rank == int(job.run_at.timestamp() * 1000)
        assert (job.payload, job.wait) == ({"text": str(number)}, int(number < 3))
    assert again("4", run_at=NOW + timedelta(days=2)) == first
    assert row(first).run_at == NOW + timedelta(seconds=25)


@pytest.mark.django_db
def test_a_debounce_that_begins_behind_its_end_is_refused() -> None:
    unique = Unique("k", "waiting", at_most=HOUR)
    with pytest.raises(jobs.errors.InvalidOption, match="delay: is longer than at_most"):
        jobs.enqueue(Echo(text=""), unique=unique, delay=3601)
    assert count() == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"for_": "ever", "at_most": HOUR},
        {"for_": "waiting", "at_most": 60},
        {"for_": "waiting", "at_most": timedelta(0)},
        {"for_": "waiting", "at_most": timedelta(days=4000)},
    ],
)
def test_an_end_that_cannot_be_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(HandlerError, match="at_most"):
        Unique("k", **arguments)


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["queued", "running", "cancelled", "again"])
def test_a_job_that_does_not_wait_any_more_is_left_alone(how: str) -> None:
    first = enqueue("a", for_="waiting").id
    if how == "again":
        settle(ended(claim_again(first)))
    elif how == "cancelled":
        move(first, "cancelled")
    else:
        move(first, "queued")
        if how == "running":
            move(first, "running")
    second = enqueue("b", for_="waiting", delay=5)
    assert not second.deduplicated and second.id != first
    assert row(first).payload == {"text": "a"}
    assert enqueue("c", for_="waiting", delay=5).id == second.id
    assert row(second.id).payload == {"text": "c"}


@pytest.mark.django_db
def test_a_waiting_key_is_kept_as_long_as_its_job_may_wait(set_clock: SetClock) -> None:
    set_clock(NOW)
    enqueue("a", for_="waiting", run_at=NOW + timedelta(days=30))
    [(until,)] = sql("SELECT expires_at FROM jobs_key")
    assert until > NOW + timedelta(days=30)


# ---- Raising


@pytest.mark.django_db
@pytest.mark.parametrize("for_", ["unfinished", HOUR, "ever"])
def test_another_payload_under_the_key_can_be_asked_to_raise(for_: Any) -> None:
    first = enqueue("a", for_=for_, on_conflict="raise").id
    assert enqueue("a", for_=for_, on_conflict="raise").id == first
    with pytest.raises(KeyConflict) as caught, transaction.atomic():
        enqueue("b", for_=for_, on_conflict="raise")
    assert (caught.value.job_id, caught.value.key) == (first, "k")
    assert count() == 1 and row(first).payload == {"text": "a"}


@pytest.mark.django_db
def test_in_a_bulk_a_conflict_takes_all_of_it_back() -> None:
    enqueue("a")
    strict = Unique("k", on_conflict="raise")
    with pytest.raises(KeyConflict):
        jobs.enqueue_many([Noop(), jobs.Draft(Echo(text="b"), unique=strict)])
    assert count() == 1
