"""RQ's own worker, as it comes, runs the jobs too: claimed, fenced and leased like any."""

from __future__ import annotations

import signal

import psutil
import pytest

from tests.integration.fleet import Fleet
from tests.wait import wait_until


def test_a_stock_worker_runs_a_job(fleet: Fleet) -> None:
    fleet.dispatcher()
    fleet.rqworker()
    job = fleet.enqueue("test.effect")
    fleet.await_state(job, "succeeded")
    assert fleet.query("SELECT job_id, attempt FROM effects") == [(job, 1)]


@pytest.mark.slow
def test_a_hundred_jobs_with_a_retry_a_killed_child_and_a_timeout(fleet: Fleet) -> None:
    fleet.dispatcher()
    workers = [fleet.rqworker(), fleet.rqworker()]
    victim = fleet.enqueue("test.effect", {"gate": str(fleet.folder / "gate")})
    horse_of(fleet, victim).send_signal(signal.SIGKILL)
    (fleet.folder / "gate.2").touch()
    retried = fleet.enqueue("test.flaky", {"failures": 1})
    stuck = fleet.enqueue("test.hang", {"how": "deaf"}, timeout=0.5)
    others = fleet.enqueue_all([("test.effect", {}, {})] * 97)
    fleet.await_final(40)
    assert {fleet.state(job) for job in (victim, retried, *others)} == {"succeeded"}
    # Its lease ran out: a silence, not a crash that anybody saw.
    assert fleet.numbers(victim) == {"attempt": 2, "failures": 0, "crashes": 0, "releases": 1}
    assert fleet.numbers(retried) == {"attempt": 2, "failures": 1, "crashes": 0, "releases": 0}
    assert fleet.state(stuck) == "failed"
    assert fleet.query("SELECT outcome FROM jobs_attempt WHERE job_id = %s", [stuck]) == [
        ("timeout",)
    ]
    wait_until(lambda: not fleet.value("SELECT count(*) FROM jobs_lease WHERE dead_at IS NULL"))
    assert all(worker.alive for worker in workers)


@pytest.mark.slow
def test_a_stock_worker_is_fed_on_after_redis_was_wiped(fleet: Fleet) -> None:
    fleet.dispatcher()
    fleet.rqworker()
    first = fleet.enqueue("test.noop")
    fleet.await_state(first, "succeeded")
    fleet.redis.flushall()
    # By then the dispatcher has looked at RQ's registry again, where nobody is left.
    later = fleet.enqueue("test.noop", delay=2.5)
    fleet.await_state(later, "succeeded")
    assert not fleet.redis.exists("rq:workers:default")


@pytest.mark.slow
def test_nothing_is_fed_to_stock_workers_that_have_died(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.rqworker()
    fleet.await_state(fleet.enqueue("test.noop"), "succeeded")
    worker.kill()
    wait_until(lambda: not fleet.redis.pubsub_channels("rq:pubsub:*"))
    # It takes the dispatcher up to a second to notice.
    wait_until(lambda: fleet.state(fleet.enqueue("test.noop")) == "pending" and stays(fleet))


def stays(fleet: Fleet) -> bool:
    """Whether a new job is left in PostgreSQL over several rounds of the dispatcher."""
    fleet.query("SELECT pg_sleep(0.6)")
    return fleet.states().get("pending", 0) > 0


def horse_of(fleet: Fleet, job: object) -> psutil.Process:
    """The child of an rqworker that runs the job, and has a lease of its own."""
    found = wait_until(
        lambda: fleet.query(
            "SELECT l.pid FROM jobs_job j JOIN jobs_lease l ON l.owner = j.owner WHERE j.id = %s",
            [job],
        ),
        message="a stock worker runs the job",
    )
    return psutil.Process(found[0][0])
