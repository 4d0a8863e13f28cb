"""The repairs: lost hints are given again, overdue jobs are closed, turns are fair."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

import jobs
from jobs.engine import reconcile, rq
from jobs.engine.dispatch import Dispatcher, know_queues, promote
from jobs.engine.reconcile import Reconciler, expire, find_missing
from jobs.models import Queue
from tests.jobs.factories import a_job, an_executor, row, sql, state
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
START = datetime(2040, 1, 1, tzinfo=UTC)
SetClock = Callable[[datetime | None], None]


def dispatched(queue: str, budget: int, lanes: int = 50) -> list[Any]:
    statement = "SELECT id FROM jobs_dispatch(%s, %s, %s, '{}')"
    return [r[0] for r in sql(statement, [queue, budget, lanes])]


# ---- Hints that were lost


def test_ids_in_no_list_are_missing_after_a_while(queue: str, set_clock: SetClock) -> None:
    set_clock(START)
    listed, lost = (a_job("queued", queue=queue) for _ in range(2))
    rq.push(queue, [listed])
    set_clock(START + timedelta(seconds=1.9))
    assert find_missing(queue, 2.0) == []
    set_clock(START + timedelta(seconds=2))
    assert find_missing(queue, 2.0) == [lost]
    assert find_missing(queue, 2.0, limit=0) == []


def test_missing_ids_are_pushed_again_and_not_at_once_once_more(
    queue: str, set_clock: SetClock
) -> None:
    set_clock(START)
    lost = a_job("queued", queue=queue)
    reconciler = Reconciler("r")
    reconciler._repush([queue])
    assert rq.listed(queue) == set()
    set_clock(START + timedelta(seconds=3))
    reconciler._repush([queue])
    assert rq.listed(queue) == {lost}
    assert row(lost).queued_at == START + timedelta(seconds=3)
    rq.client().delete(rq.queue_key(queue))
    reconciler._repush([queue])
    assert rq.listed(queue) == set()


def test_after_a_loss_of_redis_everything_is_pushed_at_once(queue: str) -> None:
    reconciler = Reconciler("r")
    _, seq = rq.push(queue, [])
    reconciler.note_push(queue, seq)
    reconciler._repush([queue])
    fresh = a_job("queued", queue=queue)
    reconciler._repush([queue])
    assert rq.listed(queue) == set(), "it is young, and nothing was lost"
    rq.client().delete(rq._seq_key(queue))
    reconciler._repush([queue])
    assert rq.listed(queue) == {fresh}


def test_a_loss_is_noticed_by_a_redis_of_2021(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis 6.2 knows no SET with NX and GET."""
    known = redis.Redis.set

    def older(*arguments: Any, **options: Any) -> Any:
        if options.get("nx") and options.get("get"):
            raise redis.ResponseError("syntax error")
        return known(*arguments, **options)

    monkeypatch.setattr(redis.Redis, "set", older)
    rq.client().delete(rq.EPOCH)
    reconciler = Reconciler("r")
    reconciler._repush([queue])
    lost = a_job("queued", queue=queue)
    rq.client().delete(rq.EPOCH)
    reconciler._repush([queue])
    assert rq.listed(queue) == {lost}


def test_the_epoch_is_what_the_first_one_said(queue: str) -> None:
    rq.client().delete(rq.EPOCH)
    assert rq.epoch("a") == "a"
    assert rq.epoch("b") == "a"
    rq.client().delete(rq.EPOCH)
    rq.client().rpush(rq.EPOCH, "a stranger's")
    assert rq.epoch("c") == "c"


def test_dispatchers_are_live_by_the_clock_of_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    rq.client().delete(rq.dispatchers_key())
    for minutes in (-10, 0, 10):
        moment = time.time() + minutes * 60
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda moment=moment: moment)
            rq.note_dispatcher(f"d{minutes}")
            assert f"d{minutes}" in rq.live_dispatchers()
    assert len(rq.live_dispatchers()) == 3
    # Nobody has heard of one for longer than it counts.
    rq.client().zadd(rq.dispatchers_key(), {"gone": time.time() - 2 * rq.DISPATCHER_TTL})
    assert "gone" not in rq.live_dispatchers()
    rq.client().delete(rq.dispatchers_key())


def test_workers_that_were_killed_leave_rqs_lists(queue: str) -> None:
    killed, lives = (rq.JobsWorker(f"{queue}.{n}", [queue], int) for n in ("killed", "lives"))
    for worker in (killed, lives):
        worker.announce()
    rq.client().delete(killed.key)
    assert rq.forget_dead_workers() >= 1
    assert not rq.client().hexists(rq.REGISTRY, killed.key)
    for key in ("rq:workers", f"rq:workers:jobs:{queue}"):
        members = rq.client().smembers(key)
        assert lives.key.encode() in members
        assert killed.key.encode() not in members
    lives.register_death()  # type: ignore[no-untyped-call]


# ---- Expiry


@pytest.mark.parametrize("waiting", ["blocked", "pending", "queued"])
def test_what_has_not_started_in_time_expires(waiting: str, set_clock: SetClock) -> None:
    end = START + timedelta(seconds=60)
    set_clock(START)
    job_id, other = a_job(waiting), a_job(waiting)
    sql("UPDATE jobs_job SET expires_at = %s WHERE id = %s", [end, job_id])
    assert expire("me") == 0
    set_clock(end)
    assert expire("me") == 1
    job = row(job_id)
    assert (job.state, job.finished_at, job.queued_at) == (
        "expired",
        START + timedelta(seconds=60),
        None,
    )
    assert job.history[-1][3:] == ["me", "not started before its expiry"]
    assert state(other) == waiting


@pytest.mark.parametrize("other", ["running", "succeeded", "failed", "cancelled"])
def test_what_has_started_does_not_expire(other: str, set_clock: SetClock) -> None:
    set_clock(START)
    job_id = a_job(other, expires=60)
    set_clock(START + timedelta(days=1))
    assert (expire("me"), state(job_id)) == (0, other)


def test_expiry_takes_portions(set_clock: SetClock) -> None:
    set_clock(START)
    for _ in range(5):
        a_job(expires=1)
    set_clock(START + timedelta(days=1))
    assert [expire("me", 2) for _ in range(4)] == [2, 2, 1, 0]


# ---- Patience


def test_a_young_server_proves_nobodys_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.engine.sql.rows", lambda *_: [(4.0,)])
    assert reconcile.patience() == 11.0
    monkeypatch.setattr("jobs.engine.sql.rows", lambda *_: [(400.0,)])
    assert reconcile.patience() == 0.0


def test_after_an_outage_the_reaper_waits_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [1000.0]
    monkeypatch.setattr(reconcile, "patience", lambda: 0.0)
    monkeypatch.setattr("jobs.engine.reconcile.time.monotonic", lambda: moment[0])
    job_id = a_job("queued")
    [held] = jobs.Job.objects.filter(pk=job_id)
    owner = an_executor()
    sql(
        "UPDATE jobs_job SET state = 'running', owner = %s, token = %s, attempt = 1, "
        "started_at = jobs_clock() WHERE id = %s",
        [owner, held.pk, job_id],
    )
    sql("UPDATE jobs_lease SET until = jobs_clock() - interval '1 min'")
    reconciler = Reconciler("r")
    reconciler.note_outage()
    reconciler._reap()
    moment[0] += 14.9
    reconciler._reap()
    assert state(job_id) == "running"
    moment[0] += 0.2
    reconciler._reap()
    assert state(job_id) == "pending"


# ---- Rounds of dispatch


def test_lanes_take_turns_round_after_round(queue: str) -> None:
    know_queues({queue})
    made = {t: [jobs.enqueue(Noop(), queue=queue, tenant=t).id for _ in range(3)] for t in "abc"}
    rounds = [dispatched(queue, 2, 2) for _ in range(5)]
    turns = [sorted(t for t, ids in made.items() for i in r if i in ids) for r in rounds]
    assert turns[:3] == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert sum(len(r) for r in rounds) == 9
    for tenant, ids in made.items():
        assert [i for r in rounds for i in r if i in ids] == ids, tenant


def test_a_queue_without_its_row_or_without_jobs_feeds_nothing(queue: str) -> None:
    jobs.enqueue(Noop(), queue=queue)
    assert dispatched(queue, 5) == []
    know_queues({queue, queue + ".empty"})
    assert dispatched(queue + ".empty", 5) == []
    assert len(dispatched(queue, 5)) == 1
    know_queues({queue})
    assert Queue.objects.filter(name=queue).count() == 1


def test_a_round_feeds_the_queues_that_somebody_listens_to(queue: str) -> None:
    ids = [jobs.enqueue(Noop(), queue=queue).id for _ in range(3)]
    dispatcher = Dispatcher("d")
    assert dispatcher.round() == 0
    an_executor(queue, slots=1)
    dispatcher._live_at = 0.0
    assert dispatcher.round() == 2, "twice as many as there are slots"
    assert rq.listed(queue) == set(ids[:2])
    assert dispatcher.round() == 0
    rq.take([queue], 2)
    assert dispatcher.round() >= 1


def test_promotion_takes_portions(set_clock: SetClock) -> None:
    set_clock(START)
    for delay in (1, 2, 3, 99):
        a_job(delay=delay)
    set_clock(START + timedelta(seconds=3))
    assert [promote(2), promote(2), promote(2)] == [2, 1, 0]
