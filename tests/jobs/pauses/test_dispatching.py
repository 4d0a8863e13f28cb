"""Pauses and blackouts as dispatchers and threads meet them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import connection, transaction

import jobs
from jobs.engine import closures, dispatch, reconcile, rq, withdrawal
from jobs.engine.reconcile import Reconciler
from jobs.models import Limiter
from jobs.operate.pauses import pause, resume
from tests.jobs.factories import WORKER, a_job, row, sql, state
from tests.jobs.pauses.closing import NOON, WHO, SetClock, a_blackout, admit, closed
from tests.specimens.handlers import Noop
from tests.wait import wait_until

pytestmark = pytest.mark.django_db


# ---- with a dispatcher


def test_the_reconciler_closes_withdraws_and_opens(set_clock: SetClock) -> None:
    set_clock(NOON - timedelta(seconds=1))
    a_blackout()
    mine = a_job("queued")
    Reconciler(WORKER).round([])
    assert state(mine) == "queued"
    set_clock(NOON)
    Reconciler(WORKER).round([])
    assert state(mine) == "pending"
    set_clock(NOON + timedelta(hours=1))
    Reconciler(WORKER).round([])
    assert closed() == {}


def test_what_is_withdrawn_is_not_pushed_again(queue: str) -> None:
    a_job("queued", queue=queue)
    sql("UPDATE jobs_job SET queued_at = queued_at - interval '1 min'")
    pause(f"queue:{queue}", **WHO)
    Reconciler(WORKER).round([queue])
    assert rq.listed(queue) == set()


def test_an_admission_at_a_rate_goes_stale_and_is_not_made_younger(
    queue: str, set_clock: SetClock
) -> None:
    set_clock(NOON)
    paced, plain = a_job("queued", queue=queue), a_job("queued", queue=queue)
    sql("UPDATE jobs_job SET flow = 4 WHERE id = %s", [paced])
    Limiter.objects.create(scope="kind:test.noop", per_second=1, burst=1, tokens=0)
    set_clock(NOON + timedelta(seconds=1.9))
    assert withdrawal.withdraw(WORKER) == 0
    missing = reconcile.find_missing(queue, 0)
    assert set(missing) == {paced, plain}
    reconcile._touch(missing)
    set_clock(NOON + timedelta(seconds=2))
    assert reconcile.find_missing(queue, 0) == [plain]
    assert withdrawal.withdraw(WORKER) == 1
    assert (state(paced), state(plain)) == ("pending", "queued")
    assert row(paced).history[-1][4] == "its admission went stale"
    assert Limiter.objects.get().tokens == 0


def test_a_queue_is_open_for_jobs_born_queued_only_where_nothing_concerns_it() -> None:
    assert closures.lets_be_born_queued("default")
    for scope, free in [("queue:x", True), ("queue:default", False), ("tenant:acme", False)]:
        pause(scope, **WHO)
        assert closures.lets_be_born_queued("default") is free
        resume(scope, **WHO)
    limiter = Limiter.objects.create(scope="queue:default", at_once=3)
    assert not closures.lets_be_born_queued("default")
    assert closures.lets_be_born_queued("elsewhere")
    limiter.delete()
    Limiter.objects.create(scope="kind:test.noop", is_declared=False, closed_until=NOON)
    assert not closures.lets_be_born_queued("default")
    Limiter.objects.update(closed_until=datetime(2020, 1, 1, tzinfo=UTC))
    assert closures.lets_be_born_queued("default")


@pytest.mark.django_db(transaction=True)
def test_a_pause_ends_the_birth_of_queued_jobs_at_once(queue: str) -> None:
    dispatch.know_queues({queue})
    for scope in (f"queue:{queue}", "tenant:acme"):
        rq.set_open(queue, 60)
        pause(scope, **WHO)
        assert not rq.is_open(queue)
        resume(scope, **WHO)


def test_an_old_name_of_a_kind_is_closed_with_it() -> None:
    class Renamed(jobs.Payload, kind="test.renamed", aliases=["test.old_name"]):
        pass

    @jobs.handler(Renamed)
    def run(ctx: jobs.Context, payload: Renamed) -> None: ...

    try:
        assert pause("kind:test.old_name", **WHO).scope == "kind:test.renamed"
        assert set(closed()) == {"kind:test.renamed", "kind:test.old_name"}
    finally:
        jobs.registry.unregister("test.renamed")


def test_without_redis_a_pause_holds_all_the_same(no_redis: None) -> None:
    mine = a_job()
    pause("queue:default", **WHO)
    assert admit() == set()
    resume("queue:default", **WHO)
    assert admit() == {mine}


# ---- races


def in_thread(act: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def waits_for_a_lock() -> bool:
    sql("SELECT pg_stat_clear_snapshot()")  # a transaction sees the same activity otherwise
    return bool(
        sql(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database()"
        )
    )


@pytest.mark.django_db(transaction=True)
def test_opening_a_key_waits_for_a_dispatcher_that_puts_a_job_aside() -> None:
    pause("key:door", **WHO)
    mine = a_job(exclusive="door")
    with transaction.atomic():
        assert admit() == set()
        opener = in_thread(lambda: resume("key:door", **WHO))
        wait_until(waits_for_a_lock)
        assert row(mine).wait == 2
    opener.join(10)
    assert admit() == {mine}


@pytest.mark.django_db(transaction=True)
def test_a_dispatcher_that_saw_a_key_closed_does_not_put_aside_what_was_opened_since() -> None:
    pause("key:door", **WHO)
    pause("key:gate", **WHO)
    mine, other = a_job(exclusive="door"), a_job(exclusive="gate")
    dispatch.know_queues({"default"})
    with transaction.atomic():
        resume("key:door", **WHO)
        dispatcher = in_thread(admit)
        wait_until(waits_for_a_lock)
    dispatcher.join(10)
    assert (state(mine), state(other)) == ("queued", "pending")


@pytest.mark.django_db(transaction=True)
def test_a_tick_passes_by_while_somebody_pauses() -> None:
    done = threading.Event()

    def tick() -> None:
        closures.refresh()
        done.set()

    with transaction.atomic():
        pause("queue:default", **WHO)
        ticker = in_thread(tick)
        assert done.wait(10)
    ticker.join(10)
    assert list(closed()) == ["queue:default"]


@pytest.mark.django_db(transaction=True)
def test_pauses_from_many_threads_all_hold() -> None:
    a_job(payload=Noop())
    names = [f"tenant:{n}" for n in range(8)]
    threads = [in_thread(partial(pause, name, **WHO)) for name in names]
    for thread in threads:
        thread.join(20)
    assert sorted(closed()) == names
    threads = [in_thread(partial(resume, name, **WHO)) for name in names]
    for thread in threads:
        thread.join(20)
    assert closed() == {}
