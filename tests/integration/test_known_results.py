"""A result that is known is written, however long the database cannot take it."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.integration import faults
from tests.integration.fleet import Fleet
from tests.wait import wait_until

CALM = {"LEASE": 15.0, "HEARTBEAT": 5.0}
Lasting = Callable[[Fleet], AbstractContextManager[None]]
takes_options = pytest.mark.skipif(
    os.environ.get("SERVERS") == "pgbouncer", reason="PgBouncer refuses options of a session"
)


def lines(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def finished(log: Path) -> Counter[str]:
    """How often the handler of each job has come to its end."""
    return Counter(line.partition(":")[0] for line in lines(log))


@pytest.mark.parametrize(
    ("fault", "options", "seconds"),
    [
        # Longer than a statement is repeated at once.
        pytest.param(
            faults.locked, "-c lock_timeout=100ms", 3.0, id="lock_timeout", marks=takes_options
        ),
        pytest.param(
            faults.locked,
            "-c statement_timeout=300ms",
            3.0,
            id="statement_timeout",
            marks=takes_options,
        ),
        pytest.param(faults.read_only, "", 3.0, id="read_only"),
    ],
)
def test_a_known_result_is_written_once_it_can_be(
    fleet: Fleet, tmp_path: Path, fault: Lasting, options: str, seconds: float
) -> None:
    log = tmp_path / "finished"
    fleet.dispatcher(jobs=CALM)
    worker = fleet.worker("--concurrency=8", jobs=CALM, env={"PGOPTIONS": options})
    work = {"log": str(log), "seconds": 1.0}
    jobs = fleet.enqueue_all(
        [("test.noted", work, {}), ("test.noted", {**work, "fails": True}, {})] * 4
    )
    wait_until(lambda: fleet.states() == {"running": len(jobs)}, message="all run")
    with fault(fleet):
        wait_until(lambda: len(finished(log)) == len(jobs), message="all have ended")
        until = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() > until)
        assert fleet.states() == {"running": len(jobs)}
    healed_at = time.monotonic()
    fleet.await_final(10)
    assert fleet.states() == {"succeeded": 4, "failed": 4}
    reasons = "SELECT DISTINCT reason FROM jobs_job WHERE state = 'failed'"
    assert fleet.query(reasons) == [("unrecoverable",)]
    assert set(finished(log).values()) == {1}, "none was run again"
    assert time.monotonic() - healed_at < 10
    assert worker.logged().count("wait for the database") < 10, "one line per cause"


@takes_options
def test_a_result_that_dies_with_its_process_is_a_loss(fleet: Fleet, tmp_path: Path) -> None:
    """And not a job that was never begun: its kind says what follows."""
    log = tmp_path / "finished"
    fleet.dispatcher(jobs=CALM)
    options = {"PGOPTIONS": "-c lock_timeout=100ms"}
    fleet.worker("--concurrency=2", jobs=CALM, env=options)
    work = {"log": str(log), "seconds": 0.5}
    job = fleet.enqueue("test.noted", work)
    doubtful = fleet.enqueue("test.noted_once", work)
    for each in (job, doubtful):
        fleet.running(each)
    with faults.locked(fleet):
        wait_until(lambda: len(finished(log)) == 2, message="both have ended")
        os.kill(fleet.running(job), signal.SIGKILL)
        # The server ends what it was asked by then.
        until = time.monotonic() + 1
        wait_until(lambda: time.monotonic() > until)
    fleet.await_state(doubtful, "failed")
    assert fleet.query("SELECT reason FROM jobs_job WHERE id = %s", [doubtful]) == [("in_doubt",)]
    fleet.await_state(job, "succeeded")
    assert fleet.numbers(job) == {"attempt": 2, "failures": 0, "crashes": 0, "releases": 1}
    assert finished(log) == {str(job): 2, str(doubtful): 1}


@takes_options
def test_a_shutdown_gives_up_the_lease_with_the_result(fleet: Fleet, tmp_path: Path) -> None:
    """What cannot be written until the end of the drain is lost, as its kind has it."""
    log = tmp_path / "finished"
    fleet.dispatcher()
    # A drain that is shorter than the lock lasts.
    options = {"PGOPTIONS": "-c lock_timeout=100ms"}
    worker = fleet.worker("--concurrency=2", jobs={"DRAIN": 2.0}, env=options)
    work = {"log": str(log), "seconds": 0.5}
    job = fleet.enqueue("test.noted", work)
    doubtful = fleet.enqueue("test.noted_once", work)
    for each in (job, doubtful):
        fleet.running(each)
    with faults.locked(fleet):
        wait_until(lambda: len(finished(log)) == 2, message="both have ended")
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
    wait_until(lambda: fleet.numbers(job)["releases"] == 1, message="it was given up")
    fleet.await_state(doubtful, "failed")
    assert fleet.query("SELECT reason FROM jobs_job WHERE id = %s", [doubtful]) == [("in_doubt",)]
    fleet.worker()
    fleet.await_state(job, "succeeded")
    assert finished(log) == {str(job): 2, str(doubtful): 1}
