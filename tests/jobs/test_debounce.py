"""A job that is put off gives its turn for an exclusive key to the next."""

from __future__ import annotations

from uuid import UUID

import pytest

import jobs
from jobs.engine import dispatch, reconcile
from tests.jobs.factories import claim_again, ended, row, settle, sql, succeed
from tests.specimens.handlers import Noop
from tests.specimens.stopping import Obey, Urgent

pytestmark = pytest.mark.django_db
LATER = jobs.Unique("w", "waiting")


def admitted() -> list[UUID]:
    dispatch.know_queues({"default"})
    return dispatch.admit("default", 9)


def test_who_was_woken_and_is_put_off_wakes_the_next() -> None:
    holder = jobs.enqueue(Noop(), exclusive="k").id
    assert admitted() == [holder]
    woken = jobs.enqueue(Noop(), exclusive="k", unique=LATER).id
    following = jobs.enqueue(Noop(), exclusive="k").id
    assert admitted() == []
    succeed(claim_again(holder))
    assert (row(woken).wait, row(following).wait) == (0, 2)
    assert jobs.enqueue(Noop(), exclusive="k", delay=60, unique=LATER).id == woken
    assert (row(woken).wait, row(following).wait) == (1, 0)
    assert admitted() == [following]


def test_an_heir_that_is_put_off_leaves_its_key_to_others() -> None:
    holder = jobs.enqueue(Obey(log="x"), exclusive="k").id
    assert admitted() == [holder]
    claim = claim_again(holder)
    heir = jobs.enqueue(Urgent(log="x"), exclusive="k", priority=9, unique=LATER).id
    assert admitted() == []
    assert reconcile.preempt() == 1
    settle(ended(claim, "preempted"))
    assert sql("SELECT job_id FROM jobs_slot") == [(heir,)]
    jobs.enqueue(Urgent(log="x"), exclusive="k", priority=9, delay=60, unique=LATER)
    assert sql("SELECT job_id FROM jobs_slot") == []
    assert admitted() == [holder]


def test_who_is_put_off_behind_a_holder_wakes_nobody() -> None:
    holder = jobs.enqueue(Noop(), exclusive="k").id
    assert admitted() == [holder]
    jobs.enqueue(Noop(), exclusive="k", unique=LATER)
    other = jobs.enqueue(Noop(), exclusive="k").id
    assert admitted() == []
    jobs.enqueue(Noop(), exclusive="k", delay=60, unique=LATER)
    assert row(other).wait == 2
