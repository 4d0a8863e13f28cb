"""A handler in a process of its own is ended alone, whatever it does; its neighbours work on."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any
from uuid import UUID

import psutil
import pytest

from tests.integration.fleet import Fleet, Program
from tests.integration.test_stopping import SOON
from tests.wait import wait_until

HERE: dict[str, Any] = {"jobs": {"CANCEL_GRACE": 0.5}}


def begin(fleet: Fleet, **options: Any) -> tuple[Program, int, list[UUID]]:
    """A worker, the pid of its executor, and two jobs that run in it."""
    fleet.dispatcher()
    worker = fleet.worker("--concurrency=4", **options)
    neighbours = fleet.enqueue_all([("test.sleep", {"seconds": 120.0}, {})] * 2)
    [executor] = {fleet.running(job) for job in neighbours}
    return worker, executor, neighbours


def end(fleet: Fleet, executor: int, neighbours: list[UUID]) -> None:
    """The neighbours have run on undisturbed."""
    for job in neighbours:
        assert fleet.running(job) == executor
        assert fleet.numbers(job) == {"attempt": 1, "failures": 0, "crashes": 0, "releases": 0}
        fleet.cancel(job)
    fleet.await_final()


def apart(fleet: Fleet, how: str, **options: Any) -> UUID:
    return fleet.enqueue("test.apart", {"how": how, "secret": "s3cr3t-word"}, **options)


def result(fleet: Fleet, job: UUID) -> Any:
    fleet.await_state(job, "succeeded")
    return fleet.value("SELECT result FROM jobs_job WHERE id = %s", [job])


def attempts(fleet: Fleet, job: UUID) -> list[tuple[str, str, str]]:
    return [
        (outcome, error, message)
        for outcome, error, message in fleet.query(
            "SELECT outcome, error_class, message FROM jobs_attempt WHERE job_id = %s "
            "ORDER BY number",
            [job],
        )
    ]


def process_of(fleet: Fleet, executor: int) -> psutil.Process:
    """The process of the only isolated job."""

    def find() -> list[psutil.Process]:
        servers = psutil.Process(executor).children()
        return [child for server in servers for child in server.children()]

    [found] = wait_until(find, message="a process of its own")
    return found


# ---- it dies


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("segfault", "its process was killed by SIGSEGV"),
        pytest.param("exit", "its process ended without a result", marks=pytest.mark.slow),
        pytest.param("kill", "its process was killed by SIGKILL", marks=pytest.mark.slow),
    ],
)
def test_a_death_is_a_crash_of_that_job_alone(fleet: Fleet, how: str, words: str) -> None:
    _, executor, neighbours = begin(fleet)
    job = apart(fleet, how)
    fleet.await_state(job, "failed")
    assert attempts(fleet, job) == [("crashed", "Crash", words)] * 2
    assert fleet.numbers(job) == {"attempt": 2, "failures": 0, "crashes": 2, "releases": 0}
    assert fleet.value("SELECT reason FROM jobs_job WHERE id = %s", [job]) == "crash_loop"
    assert psutil.Process(executor).is_running()
    end(fleet, executor, neighbours)


def test_what_it_may_use_is_limited(fleet: Fleet) -> None:
    """Memory and files end in an exception of the handler, processor time as a timeout does."""
    _, executor, neighbours = begin(fleet)
    bomb, files, spin = (apart(fleet, how) for how in ("bomb", "files", "spin"))
    for job, error in ((bomb, "MemoryError"), (files, "OSError"), (spin, "Timeout")):
        fleet.await_state(job, "failed")
        [(_, error_class, message)] = attempts(fleet, job)
        assert error_class == error, message
        assert fleet.numbers(job) == {"attempt": 1, "failures": 1, "crashes": 0, "releases": 0}
    assert message == "used up its processor time"
    assert "Too many open files" in attempts(fleet, files)[0][2]
    end(fleet, executor, neighbours)


@pytest.mark.slow
def test_the_fork_server_may_die(fleet: Fleet) -> None:
    """Its jobs run again, in an executor that has another one; the others end where they are."""
    _, executor, neighbours = begin(fleet)
    job = apart(fleet, "sleep")
    fleet.running(job)
    child = process_of(fleet, executor)
    os.kill(child.ppid(), signal.SIGKILL)
    wait_until(lambda: not child.is_running(), message="it died with its server")
    wait_until(lambda: fleet.numbers(job)["attempt"] == 2)
    assert fleet.running(job) != executor
    assert fleet.numbers(job) == {"attempt": 2, "failures": 0, "crashes": 0, "releases": 1}
    for each in neighbours:
        assert fleet.running(each) == executor
    for each in (job, *neighbours):
        fleet.cancel(each)
    fleet.await_final()


@pytest.mark.slow
def test_with_its_executor_it_dies_and_is_no_suspect(fleet: Fleet) -> None:
    _, executor, neighbours = begin(fleet)
    job = apart(fleet, "deaf")
    fleet.running(job)
    child = process_of(fleet, executor)
    os.kill(executor, signal.SIGKILL)
    wait_until(lambda: not child.is_running(), message="it died with its executor")
    wait_until(lambda: fleet.numbers(job)["releases"] == 1)
    assert fleet.numbers(job)["crashes"] == 0
    for each in (*neighbours, job):
        assert fleet.numbers(each)["crashes"] == (each != job)
        fleet.cancel(each)
    fleet.await_final()


# ---- it is ended


def test_at_its_timeout_it_alone_is_killed(fleet: Fleet) -> None:
    _, executor, neighbours = begin(fleet)
    job = apart(fleet, "deaf", timeout=0.5)
    fleet.await_state(job, "failed")
    words = "did not end after its timeout; its process was killed"
    assert attempts(fleet, job) == [("timeout", "Timeout", words)]
    assert fleet.numbers(job)["failures"] == 1
    end(fleet, executor, neighbours)


@pytest.mark.slow
@pytest.mark.parametrize("force", [False, True])
def test_a_cancel_ends_it(fleet: Fleet, force: bool) -> None:
    """It ignores SIGTERM and what it is told; forced or not, its process may go."""
    _, executor, neighbours = begin(fleet, **HERE)
    job = apart(fleet, "deaf")
    fleet.running(job)
    fleet.cancel(job, force=force)
    fleet.await_state(job, "cancelled", SOON)
    assert fleet.numbers(job)["failures"] == 0
    end(fleet, executor, neighbours)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["test.apart", "test.apart_async"])
def test_it_hears_that_it_is_to_stop(fleet: Fleet, kind: str) -> None:
    _, executor, neighbours = begin(fleet, jobs={"CANCEL_GRACE": 600})
    job = fleet.enqueue(kind, {"how": "sleep" if kind == "test.apart" else "wait"})
    fleet.running(job)
    fleet.cancel(job)
    fleet.await_state(job, "cancelled", SOON)
    end(fleet, executor, neighbours)


@pytest.mark.slow
def test_what_it_has_started_ends_with_it(fleet: Fleet) -> None:
    _, executor, neighbours = begin(fleet)
    job = apart(fleet, "orphan", timeout=2)
    done = "SELECT (progress->>'done')::int FROM jobs_job WHERE id = %s"
    orphan = psutil.Process(wait_until(lambda: fleet.value(done, [job])))
    fleet.await_state(job, "failed")
    wait_until(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE)
    end(fleet, executor, neighbours)


@pytest.mark.slow
def test_a_preemption_kills_it_where_it_may(fleet: Fleet) -> None:
    fleet.dispatcher()
    fleet.worker("--concurrency=4", jobs={"PREEMPTION_GRACE": 0.3, "CANCEL_GRACE": 0.3})
    job = apart(fleet, "deaf", exclusive="k")
    executor = fleet.running(job)
    payload = {"log": os.devnull, "seconds": 0.01}
    urgent = fleet.enqueue("test.urgent", payload, exclusive="k", priority=9)
    fleet.await_state(urgent, "succeeded", SOON)
    assert fleet.running(job) == executor
    assert fleet.value("SELECT preemptions FROM jobs_job WHERE id = %s", [job]) == 1
    fleet.cancel(job, force=True)
    fleet.await_final()


@pytest.mark.slow
def test_a_shutdown_waits_for_it(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker()
    job = fleet.enqueue("test.apart", {"how": "sleep", "seconds": 1.0})
    fleet.running(job)
    for process in (psutil.Process(worker.pid), *worker.family()):
        process.terminate()  # as a service manager does
    assert worker.ended() == 0
    assert fleet.state(job) == "succeeded"
    assert fleet.numbers(job) == {"attempt": 1, "failures": 0, "crashes": 0, "releases": 0}


# ---- what it says comes back


def test_its_context_works_and_its_result_comes_back(fleet: Fleet) -> None:
    fleet.dispatcher()
    fleet.worker()
    job = apart(fleet, "tell")
    told = result(fleet, job)
    executor = fleet.executors(fleet.programs[-1])[0]
    assert told["pid"] == told["effect"] != executor
    assert told["limits"] == [64, 2, 0]
    assert "s3cr3t" not in json.dumps(told)
    assert fleet.value("SELECT progress->>'note' FROM jobs_job WHERE id = %s", [job]) == "half way"
    assert fleet.value("SELECT count(*) FROM effects WHERE job_id = %s", [job]) == 1
    topics = "SELECT topic FROM jobs_outbox UNION ALL SELECT topic FROM jobs_feed"
    wait_until(lambda: ("specimen.apart",) in fleet.query(topics))
    counted = "SELECT value FROM jobs_metric WHERE name = 'specimen_apart_total'"
    wait_until(lambda: fleet.query(counted) == [(1.0,)])
    assert len(result(fleet, apart(fleet, "large"))) == 60_000
    assert result(fleet, fleet.enqueue("test.apart_async")) != executor
    assert result(fleet, fleet.enqueue("test.apart_atomic")) != executor


def test_its_error_comes_back(fleet: Fleet) -> None:
    fleet.dispatcher()
    fleet.worker()
    job = apart(fleet, "fail")
    fleet.await_state(job, "failed")
    [(error, message, trace, lines)] = fleet.query(
        "SELECT error_class, message, traceback, lines FROM jobs_attempt WHERE job_id = %s", [job]
    )
    assert error == "ValueError"
    assert message.startswith("as told, with ")
    assert "s3cr3t" not in message + trace + lines
    assert "KeyError" in trace and "in _fail" in trace
    assert "about to fail" in lines
    strange = apart(fleet, "strange")
    fleet.await_state(strange, "failed")
    assert attempts(fleet, strange)[0][1] == "UnstorableResult"


@pytest.mark.slow
def test_an_atomic_one_commits_all_or_nothing(fleet: Fleet) -> None:
    _, executor, neighbours = begin(fleet)
    job = fleet.enqueue("test.apart_atomic", {"how": "die"})
    fleet.await_state(job, "failed")
    assert fleet.value("SELECT count(*) FROM effects") == 0
    assert fleet.numbers(job)["crashes"] == 3
    end(fleet, executor, neighbours)


@pytest.mark.slow
def test_many_at_once_leave_nothing_behind(fleet: Fleet) -> None:
    fleet.dispatcher()
    fleet.worker("--concurrency=4")
    ways = ["segfault", "exit", "large", "fail", "bomb", "nothing"]
    made = {apart(fleet, ways[n % 6]): ways[n % 6] for n in range(60)}
    fleet.await_final(60)
    for job, how in made.items():
        expected = "succeeded" if how in ("large", "nothing") else "failed"
        assert fleet.state(job) == expected, how
    [executor] = fleet.executors(fleet.programs[-1])
    [server] = psutil.Process(executor).children()
    wait_until(lambda: not server.children())
    # Beside its own ends it keeps no file of a job.
    assert server.num_fds() < 40
    began = time.monotonic()
    result(fleet, apart(fleet, "nothing"))
    assert time.monotonic() - began < SOON
