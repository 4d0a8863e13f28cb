"""Workers that people ask to take no more, or to end."""

from __future__ import annotations

from tests.integration.fleet import Fleet, Program
from tests.wait import wait_until


def ask(fleet: Fleet, worker: Program, what: str) -> None:
    """What the verb writes."""
    wait_until(lambda: fleet.query("SELECT 1 FROM jobs_worker WHERE name = %s", [worker.name]))
    fleet.query("UPDATE jobs_worker SET asked = %s WHERE name = %s", [what, worker.name])


def test_a_drained_worker_finishes_and_takes_no_more(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker("--concurrency=1")
    begun = fleet.enqueue("test.sleep", {"seconds": 1.0})
    fleet.running(begun)
    ask(fleet, worker, "drain")
    wait_until(lambda: "takes no more" in worker.logged())
    waiting = fleet.enqueue_all([("test.noop", {}, {})] * 3)
    fleet.await_state(begun, "succeeded")
    wait_until(lambda: not fleet.executors(worker))
    assert all(fleet.state(job) in ("pending", "queued") for job in waiting)
    assert worker.alive
    ask(fleet, worker, "stop")
    assert worker.ended() == 0
    assert fleet.value("SELECT ended_at IS NOT NULL FROM jobs_worker")
    fleet.worker()
    fleet.await_final()


def test_a_stopped_worker_ends_and_harms_no_job(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker("--concurrency=1")
    job = fleet.enqueue("test.sleep", {"seconds": 0.5})
    fleet.running(job)
    ask(fleet, worker, "stop")
    wait_until(lambda: "stops: no new jobs" in worker.logged())
    assert worker.ended() == 0
    assert fleet.state(job) == "succeeded"
    assert fleet.numbers(job) == {"attempt": 1, "failures": 0, "crashes": 0, "releases": 0}
