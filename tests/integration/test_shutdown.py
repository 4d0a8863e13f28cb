"""A worker that is told to stop, or that has done its share, goes without harm to any job."""

from __future__ import annotations

import signal
from functools import partial

import pytest

from tests.integration.fleet import Fleet, Program, is_alive
from tests.wait import wait_until

UNHARMED = {"attempt": 1, "failures": 0, "crashes": 0, "releases": 0}


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_running_jobs_finish_and_nothing_else_begins(fleet: Fleet, number: signal.Signals) -> None:
    dispatcher = fleet.dispatcher()
    worker = fleet.worker("--concurrency=2")
    begun = [fleet.enqueue("test.sleep", {"seconds": 0.5}) for _ in range(2)]
    for job in begun:
        fleet.running(job)
    waiting = fleet.enqueue_all([("test.noop", {}, {})] * 5)
    family = worker.family()
    worker.send(number)
    assert worker.ended() == 0
    assert not any(map(is_alive, family))
    for job in begun:
        assert fleet.state(job) == "succeeded"
        assert fleet.numbers(job) == UNHARMED
    assert all(fleet.state(job) in ("pending", "queued") for job in waiting)
    dispatcher.send(number)
    assert dispatcher.ended() == 0
    fleet.dispatcher()
    fleet.worker()
    fleet.await_final()


@pytest.mark.parametrize("how", ["polite", pytest.param("deaf", marks=pytest.mark.slow)])
def test_what_outlives_the_drain_is_released_unharmed(fleet: Fleet, how: str) -> None:
    fleet.dispatcher()
    worker = fleet.worker(jobs={"DRAIN": 1.0})
    job = fleet.enqueue("test.hang", {"how": how}, timeout=60)
    fleet.running(job)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    assert fleet.state(job) in ("pending", "queued")
    assert fleet.numbers(job) == {**UNHARMED, "releases": 1}


def test_a_second_signal_means_now(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker(jobs={"DRAIN": 60.0})
    job = fleet.enqueue("test.hang", {"how": "deaf"}, timeout=60)
    fleet.running(job)
    worker.send(signal.SIGTERM)
    wait_until(lambda: "stops: no new jobs" in worker.logged())
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    assert fleet.state(job) in ("pending", "queued")
    assert fleet.numbers(job) == {**UNHARMED, "releases": 1}


def test_a_burst_ends_when_nothing_due_is_left(fleet: Fleet) -> None:
    due = fleet.enqueue_all([("test.noop", {}, {})] * 50)
    later = fleet.enqueue("test.noop", delay=3600)
    fleet.dispatcher()
    worker = fleet.manage("burst", "jobs", "worker", "--burst", "--processes=2")
    assert worker.ended() == 0
    assert {fleet.state(job) for job in due} == {"succeeded"}
    assert fleet.state(later) == "pending"


def test_an_executor_is_replaced_after_its_share_of_jobs(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker("--max-jobs=10", "--concurrency=2")
    jobs = fleet.enqueue_all([("test.noop", {}, {})] * 35)
    fleet.await_final()
    assert {fleet.state(job) for job in jobs} == {"succeeded"}
    assert fleet.value("SELECT max(attempt) FROM jobs_job") == 1
    leases = fleet.value("SELECT count(*) FROM jobs_lease WHERE worker = %s", [worker.name])
    assert 4 <= leases <= 6
    assert worker.alive


def test_an_executor_that_holds_too_much_memory_is_replaced(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker("--max-memory=1")
    for _ in range(3):
        first = fleet.executors(worker)
        fleet.await_state(fleet.enqueue("test.noop"), "succeeded")
        wait_until(partial(has_others, fleet, worker, first), message="it was replaced")
    assert fleet.value("SELECT max(attempt) FROM jobs_job") == 1
    assert worker.alive


def has_others(fleet: Fleet, worker: Program, before: list[int]) -> bool:
    return fleet.executors(worker) not in ([], before)
