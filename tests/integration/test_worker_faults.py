"""Processes of a worker die, freeze or are cut off: their jobs run again, and only once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.integration.fleet import Fleet, Program, is_alive
from tests.wait import wait_until


def test_a_job_is_run(fleet: Fleet) -> None:
    fleet.dispatcher()
    fleet.worker()
    job = fleet.enqueue("test.effect")
    fleet.await_state(job, "succeeded")
    assert fleet.query("SELECT job_id, attempt FROM effects") == [(job, 1)]


def test_jobs_of_a_killed_worker_run_again_within_lease_and_two_seconds(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.dispatcher()
    victim = fleet.worker()
    (tmp_path / "gate.2").touch()
    job = fleet.enqueue("test.effect", {"gate": str(tmp_path / "gate")})
    fleet.running(job)
    fleet.worker()
    victim.kill()
    fleet.await_state(job, "succeeded")
    # Nobody saw it crash: a silence costs neither a failure nor a crash.
    assert fleet.numbers(job) == {"attempt": 2, "failures": 0, "crashes": 0, "releases": 1}


def test_jobs_of_a_killed_executor_run_again_within_a_second(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker()
    job = fleet.enqueue("test.sleep", {"seconds": 0.5})
    first = fleet.running(job)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: fleet.numbers(job)["attempt"] == 2, message="it runs again")
    fleet.await_state(job, "succeeded")
    assert fleet.numbers(job) == {"attempt": 2, "failures": 0, "crashes": 1, "releases": 0}
    assert worker.alive
    assert fleet.executors(worker) != [first]


def test_a_killed_worker_leaves_no_process_behind(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker("--processes=2")
    jobs = [fleet.enqueue("test.hang", {"how": "deaf"}, timeout=60) for _ in range(2)]
    for job in jobs:
        fleet.running(job)
    family = worker.family()
    assert len(family) == 5  # two executors with their fork servers, and a keeper
    worker.kill()
    wait_until(lambda: not any(map(is_alive, family)), message="the family is gone")


@pytest.mark.slow
def test_a_killed_keeper_is_replaced_before_a_lease_runs_out(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker()
    job = fleet.enqueue("test.sleep", {"seconds": 2.4})
    executor = fleet.running(job)
    keeper_of(worker, executor).kill()
    fleet.await_state(job, "succeeded")
    assert fleet.numbers(job) == {"attempt": 1, "failures": 0, "crashes": 0, "releases": 0}


@pytest.mark.slow
def test_a_keeper_that_stands_still_is_replaced_before_a_lease_runs_out(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker(jobs={"LEASE": 6.0})
    job = fleet.enqueue("test.sleep", {"seconds": 8})
    executor = fleet.running(job)
    stuck = keeper_of(worker, executor)
    stuck.suspend()
    fleet.await_state(job, "succeeded")
    assert fleet.numbers(job) == {"attempt": 1, "failures": 0, "crashes": 0, "releases": 0}
    assert not is_alive(stuck)


@pytest.mark.slow
def test_what_a_keeper_was_told_and_did_not_report_the_next_one_does(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker(jobs={"LEASE": 20.0})
    job = fleet.enqueue("test.sleep", {"seconds": 0.5})
    executor = fleet.running(job)
    keeper = keeper_of(worker, executor)
    keeper.suspend()
    os.kill(executor, signal.SIGKILL)
    wait_until(lambda: f"executor {executor} was killed" in worker.logged())
    keeper.kill()
    # Its lease would last longer than that.
    fleet.await_state(job, "succeeded", 15)
    assert fleet.numbers(job) == {"attempt": 2, "failures": 0, "crashes": 1, "releases": 0}


@pytest.mark.slow
def test_an_executor_that_stands_still_gets_a_successor(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker(jobs={"DRAIN": 1.0})
    [stuck] = fleet.executors(worker)
    os.kill(stuck, signal.SIGSTOP)
    job = fleet.enqueue("test.noop")
    fleet.await_state(job, "succeeded")
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_job_that_kills_its_process_is_given_up_and_its_neighbours_survive(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker("--concurrency=4")
    neighbours = [fleet.enqueue("test.sleep", {"seconds": 0.4}) for _ in range(3)]
    for job in neighbours:
        fleet.running(job)
    poison = fleet.enqueue("test.die", {"how": "kill"}, max_attempts=50)
    fleet.await_state(poison, "failed")
    assert fleet.numbers(poison) == {"attempt": 3, "failures": 0, "crashes": 3, "releases": 0}
    assert fleet.value("SELECT reason FROM jobs_deadletter WHERE job_id = %s", [poison]) == (
        "crash_loop"
    )
    for job in neighbours:
        fleet.await_state(job, "succeeded")
        # Suspects once, with the poison; never again.
        assert fleet.numbers(job)["crashes"] == 1
    assert worker.alive


@pytest.mark.parametrize("how", ["exit", pytest.param("segfault", marks=pytest.mark.slow)])
def test_a_process_that_dies_otherwise_is_a_crash_too(fleet: Fleet, how: str) -> None:
    fleet.dispatcher()
    worker = fleet.worker()
    job = fleet.enqueue("test.die", {"how": how, "attempts": 1})
    fleet.await_state(job, "succeeded")
    assert fleet.numbers(job) == {"attempt": 2, "failures": 0, "crashes": 1, "releases": 0}
    assert worker.alive


class Thawed:
    """A worker froze with a job, the job was given to another worker, the first one thaws."""

    def __init__(self, fleet: Fleet, gate: Path, env: dict[str, str] | None = None) -> None:
        fleet.dispatcher()
        self.frozen = fleet.worker(env=env)
        self.job = fleet.enqueue("test.effect", {"gate": str(gate)})
        first = fleet.running(self.job)
        self.frozen.pause()
        fleet.worker(env=env)
        wait_until(lambda: fleet.numbers(self.job)["attempt"] == 2, message="another took over")
        # Its handler may end, and does so before its supervisor wakes up and kills it.
        gate.with_suffix(".1").touch()
        os.kill(first, signal.SIGCONT)
        wait_until(lambda: self.has_spoken(fleet), message="the thawed executor wrote")
        self.frozen.proceed()
        gate.with_suffix(".2").touch()
        fleet.await_state(self.job, "succeeded")

    def has_spoken(self, fleet: Fleet) -> bool:
        return "was taken away" in self.frozen.logged() or fleet.state(self.job) == "succeeded"


def test_what_a_thawed_worker_writes_late_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    scene = Thawed(fleet, tmp_path / "gate")
    assert fleet.query("SELECT attempt FROM effects") == [(2,)]
    assert fleet.numbers(scene.job) == {"attempt": 2, "failures": 0, "crashes": 0, "releases": 1}
    fleet.enqueue("test.noop")
    fleet.await_final()
    assert scene.frozen.alive


def test_the_checks_notice_a_worker_without_its_fence(fleet: Fleet, tmp_path: Path) -> None:
    Thawed(fleet, tmp_path / "gate", {"FLEET_UNFENCED": "1"})
    assert "an effect comes from another attempt than the one that succeeded" in [
        text.partition(":")[0] for text in fleet.violations()
    ]
    # What was proved is not the fleet's fault.
    fleet.query("TRUNCATE effects, jobs_job CASCADE")


def test_kinds_that_share_a_queue_drain_without_pauses(fleet: Fleet) -> None:
    """Shares of a round are rounded down; what that leaves must not wait for the next tick."""
    fleet.worker("--concurrency=4")
    fleet.enqueue_all([("test.noop", {}, {}), ("test.echo", {"text": ""}, {})] * 300)
    fleet.dispatcher(jobs={"TICK": 60.0})
    fleet.await_final()
    assert fleet.states() == {"succeeded": 600}


def test_two_dispatchers_share_the_work(fleet: Fleet) -> None:
    dispatchers = [fleet.dispatcher(), fleet.dispatcher()]
    fleet.worker()
    jobs = fleet.enqueue_all([("test.effect", {}, {})] * 200)
    fleet.await_final()
    assert fleet.states() == {"succeeded": len(jobs)}
    assert fleet.value("SELECT max(attempt) FROM jobs_job") == 1
    assert all(dispatcher.alive for dispatcher in dispatchers)


def test_another_dispatcher_goes_on_where_a_killed_one_ended(fleet: Fleet) -> None:
    dispatcher = fleet.dispatcher()
    fleet.worker()
    fleet.enqueue_all([("test.noop", {}, {})] * 1000)
    wait_until(lambda: fleet.states().get("succeeded", 0) > 50)
    dispatcher.kill()
    fleet.dispatcher()
    fleet.await_final()
    assert fleet.states() == {"succeeded": 1000}


def keeper_of(worker: Program, executor: int) -> psutil.Process:
    children = psutil.Process(worker.pid).children()
    [keeper] = [child for child in children if child.pid != executor]
    return keeper
