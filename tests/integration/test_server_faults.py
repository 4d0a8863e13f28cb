"""Redis or PostgreSQL goes away, forgets or comes late: work is delayed, and never lost."""

from __future__ import annotations

import os
import time
from functools import partial

import pytest

from config.embedded import Postgres, Valkey
from tests.integration.fleet import Fleet, Program
from tests.wait import wait_until

SLACK = 8
"""Seconds that a slow machine may add to what is promised."""
CALM = {"LEASE": 15.0, "HEARTBEAT": 5.0}


def test_a_redis_wipe_delays_queued_jobs_by_two_seconds_at_most(fleet: Fleet) -> None:
    fleet.dispatcher()
    busy = fleet.worker("--concurrency=1")
    first = fleet.enqueue("test.sleep", {"seconds": 0.5})
    fleet.running(first)
    jobs = fleet.enqueue_all([("test.noop", {}, {})] * 20)
    wait_until(lambda: fleet.states().get("queued"), message="some are in Redis")
    fleet.redis.flushall()
    fleet.await_state(first, "succeeded")
    fleet.await_final(2 + SLACK)
    assert fleet.states() == {"succeeded": 1 + len(jobs)}
    assert busy.alive


def test_a_wipe_is_noticed_although_the_epoch_was_kept(fleet: Fleet) -> None:
    """As after a failover to a replica that lags behind."""
    fleet.dispatcher()
    fleet.worker("--concurrency=1")
    first = fleet.enqueue("test.sleep", {"seconds": 0.5})
    fleet.running(first)
    fleet.enqueue_all([("test.noop", {}, {})] * 5)
    wait_until(lambda: fleet.states().get("queued"), message="some are in Redis")
    fleet.redis.delete(fleet.key("queue", "default"))
    fleet.redis.set(fleet.key("seq", "default"), 0)
    fleet.await_final(2 + SLACK)
    assert fleet.states() == {"succeeded": 6}


def test_redis_crashes_and_comes_back_empty(fleet: Fleet) -> None:
    dispatcher = fleet.dispatcher()
    worker = fleet.worker("--concurrency=2")
    fleet.enqueue_all([("test.sleep", {"seconds": 0.05}, {})] * 40)
    wait_until(lambda: has_done(fleet, 4))
    fleet.valkey.kill()
    # The database is enough to enqueue.
    late = fleet.enqueue("test.noop")
    fleet.valkey.start()
    fleet.await_state(late, "succeeded")
    fleet.await_final()
    assert fleet.states() == {"succeeded": 41}
    assert fleet.value("SELECT max(attempt) FROM jobs_job") == 1
    assert worker.alive and dispatcher.alive


def test_every_database_connection_is_broken(fleet: Fleet) -> None:
    dispatcher = fleet.dispatcher()
    worker = fleet.worker("--concurrency=4")
    fleet.enqueue_all([("test.effect", {}, {}), ("test.noop", {}, {})] * 300)
    for done in (20, 100, 200):
        wait_until(partial(has_done, fleet, done))
        wait_until(lambda: fleet.backends() >= 3, message="its processes are connected again")
        assert fleet.terminate_backends() >= 1
    fleet.await_final()
    assert fleet.states() == {"succeeded": 600}
    assert fleet.value("SELECT sum(crashes) + sum(failures) FROM jobs_job") == 0
    assert worker.alive and dispatcher.alive


def test_postgres_crashes_and_recovers(fleet: Fleet) -> None:
    dispatcher = fleet.dispatcher()
    worker = fleet.worker("--concurrency=4", jobs=CALM)
    fleet.enqueue_all([("test.effect", {}, {}), ("test.noop", {}, {})] * 300)
    wait_until(lambda: has_done(fleet, 40))
    fleet.postgres.restart("immediate")
    fleet.await_final()
    assert fleet.states() == {"succeeded": 600}
    assert fleet.value("SELECT sum(crashes) + sum(failures) FROM jobs_job") == 0
    assert worker.alive and dispatcher.alive


without_pooler = pytest.mark.skipif(
    os.environ.get("SERVERS") == "pgbouncer", reason="PgBouncer has them wait and says nothing"
)


@pytest.mark.parametrize("name", [pytest.param("postgres", marks=without_pooler), "valkey"])
def test_processes_started_without_a_server_begin_when_it_comes(fleet: Fleet, name: str) -> None:
    job = fleet.enqueue("test.noop")
    server: Postgres | Valkey = getattr(fleet, name)
    server.stop()
    worker = fleet.worker(unready=True)
    dispatcher = fleet.dispatcher()
    for program in (worker, dispatcher):
        wait_until(partial(is_waiting, program), message="it waits")
    server.start()
    fleet.await_state(job, "succeeded")
    assert worker.alive and dispatcher.alive


def is_waiting(program: Program) -> bool:
    log = program.logged()
    return any(words in log for words in ("is away", "waiting for", "waits for"))


def has_done(fleet: Fleet, number: int) -> bool:
    return fleet.states().get("succeeded", 0) > number


@pytest.mark.slow
def test_an_outage_longer_than_a_lease_costs_time_and_nothing_else(fleet: Fleet) -> None:
    fleet.dispatcher(jobs=CALM)
    workers = [fleet.worker("--concurrency=4", jobs=CALM) for _ in range(2)]
    fleet.enqueue_all([("test.sleep", {"seconds": 0.1}, {}), ("test.effect", {}, {})] * 400)
    # These are in their handlers when the server goes.
    long = [fleet.enqueue("test.sleep", {"seconds": 3.0}, priority=100) for _ in range(4)]
    for job in long:
        fleet.running(job)
    wait_until(lambda: has_done(fleet, 20))
    fleet.postgres.stop("immediate")
    gone_at = time.monotonic()
    wait_until(lambda: time.monotonic() - gone_at > CALM["LEASE"] + 5)
    fleet.postgres.start()
    done = fleet.states()["succeeded"]
    wait_until(lambda: fleet.states()["succeeded"] > done + 10, message="work resumes")
    fleet.await_final(60)
    assert fleet.states() == {"succeeded": 804}
    assert fleet.value("SELECT sum(crashes) + sum(failures) FROM jobs_job") == 0
    # No stampede: what had been running is handed back or finished, and runs at most twice.
    assert fleet.value("SELECT max(attempt) FROM jobs_job") <= 2
    assert fleet.value("SELECT count(*) FROM jobs_job WHERE releases > 0") <= 2 * 4 * 2
    assert all(worker.alive for worker in workers)
