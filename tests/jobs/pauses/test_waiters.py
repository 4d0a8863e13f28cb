"""Beside what is closed, nothing free stays unused."""

from __future__ import annotations

from uuid import uuid4

import pytest

import jobs
from jobs.engine import reconcile, slots
from jobs.ids import uuid7
from jobs.models import Closure, Limiter, Slot
from jobs.operate.pauses import pause, resume
from tests.jobs.factories import WORKER, a_job, move, row, sql, state
from tests.jobs.pauses.closing import SCOPES, WHO, admit, claim
from tests.specimens.handlers import Echo

pytestmark = pytest.mark.django_db


def test_a_leaked_slot_is_freed_and_its_best_waiter_woken() -> None:
    waiter = a_job(exclusive="a")
    sql("UPDATE jobs_job SET wait = 2 WHERE id = %s", [waiter])
    holder, heir, later = (a_job(exclusive=key) for key in "bcd")
    move(holder, "queued")
    sql("UPDATE jobs_job SET wait = 1 WHERE id = %s", [later])
    held_by = {"a": uuid7(), "b": holder, "c": heir, "d": later, "e": a_job("succeeded")}
    for key, job_id in held_by.items():
        Slot.objects.create(key=key, job_id=job_id)
    assert slots.free_leaked() == ["a", "d", "e"]
    assert set(Slot.objects.values_list("key", flat=True)) == {"b", "c"}
    assert row(waiter).wait == 0
    assert slots.free_leaked() == []


def test_the_waiter_of_a_free_key_is_woken_once() -> None:
    best, second = a_job(exclusive="free", priority=1), a_job(exclusive="free")
    held, shut = a_job(exclusive="held"), a_job(exclusive="shut")
    sql("UPDATE jobs_job SET wait = 2")
    Slot.objects.create(key="held", job_id=uuid4())
    Closure.objects.create(scope="key:shut", why="test")
    watch = slots.Watch()
    assert [watch.wake_forgotten(limit=1) for _ in range(3)] == [1, 0, 0]
    assert [row(job_id).wait for job_id in (best, second, held, shut)] == [0, 2, 2, 2]
    assert [watch.wake_forgotten(limit=1) for _ in range(4)] == [0, 0, 0, 0]


def test_the_waiters_for_a_place_are_woken_as_far_as_there_is_room() -> None:
    ids = [a_job() for _ in range(5)]
    sql("UPDATE jobs_job SET limit_key = 'k', wait = 2")
    move(ids[0], "queued")
    Limiter.objects.create(scope="key:test.noop|k", kind="test.noop", key="k", at_once=3)
    assert slots.wake_limited() == 2
    assert [row(job_id).wait for job_id in ids[1:]] == [0, 0, 2, 2]
    assert slots.wake_limited() == 0


def test_a_waiter_in_a_paused_scope_does_not_hold_up_the_others() -> None:
    holder = a_job(exclusive="door", priority=100)
    assert admit() == {holder}
    best = a_job(exclusive="door", priority=50, tenant="acme")
    other = a_job(exclusive="door")
    assert admit() == set()
    pause("tenant:acme", **WHO)
    jobs.cancel(holder, **WHO)
    assert [row(best).wait, row(other).wait] == [2, 0]
    assert admit() == {other}
    jobs.cancel(other, **WHO)
    assert row(best).wait == 0, "it goes as soon as it may"
    assert admit() == set()
    resume("tenant:acme", **WHO)
    assert admit() == {best}


def test_a_ready_waiter_that_is_paused_later_does_not_hold_up_the_others() -> None:
    best, other = a_job(exclusive="door", tenant="acme"), a_job(exclusive="door")
    sql("UPDATE jobs_job SET wait = 2 WHERE id = %s", [other])
    watch = slots.Watch()
    assert watch.wake_forgotten() == 0
    pause("tenant:acme", **WHO)
    assert watch.wake_forgotten() == 1
    assert watch.wake_forgotten() == 0
    assert admit() == {other}
    assert state(best) == "pending"


@pytest.mark.parametrize("scope", SCOPES)
def test_a_paused_job_pushes_nobody_aside(scope: str) -> None:
    holder = a_job(payload=Echo(text="x"), exclusive="door", queue="elsewhere")
    assert admit("elsewhere") == {holder}
    assert claim(holder, queue="elsewhere") == {holder}
    sql("UPDATE jobs_job SET preemptible = true")
    rival = a_job(exclusive="door", tenant="acme", priority=50)
    sql("UPDATE jobs_job SET preempts = true, wait = 2 WHERE id = %s", [rival])
    pause(scope, **WHO)
    assert reconcile.preempt() == 0
    resume(scope, **WHO)
    assert admit() == set()
    assert reconcile.preempt() == 1
    # And one that was paused after it has asked does not get the key.
    pause(scope, **WHO)
    move(holder, "pending")
    sql("SELECT jobs_follow(%s)", [[holder]])
    assert not Slot.objects.filter(job_id=rival).exists()
    resume(scope, **WHO)
    assert admit() == {rival}


def test_an_expired_holder_passes_its_key_on() -> None:
    holder, waiter = a_job(exclusive="door", expires=60), a_job(exclusive="door")
    assert admit() == {holder}
    assert row(waiter).wait == 2
    sql("UPDATE jobs_job SET expires_at = jobs_clock() WHERE id = %s", [holder])
    assert reconcile.expire(WORKER) == 1
    assert admit() == {waiter}
