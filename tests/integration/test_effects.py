"""Processes die and freeze around an effect: it happens once, or a person is asked."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from uuid import UUID

import pytest

from tests.integration.fleet import Fleet
from tests.wait import wait_until


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The world outside: one line for each time that it was changed."""
    path = tmp_path / "log"
    path.touch()
    return path


def effect(fleet: Fleet, job: UUID) -> tuple[str, int]:
    [found] = fleet.query("SELECT state, attempt FROM jobs_effect WHERE job_id = %s", [job])
    return found[0], found[1]


@pytest.mark.parametrize(
    ("crash", "by"),
    [("before it happens", 2), ("after it happened", 1), ("after the outcome", 1)],
)
def test_an_effect_with_a_probe_happens_once_wherever_its_process_dies(
    fleet: Fleet, log: Path, crash: str, by: int
) -> None:
    fleet.dispatcher()
    fleet.worker()
    job = fleet.enqueue("test.outside", {"log": str(log), "crash": crash, "probe": True})
    fleet.await_state(job, "succeeded")
    assert log.read_text() == f"{by}\n"
    result = fleet.value("SELECT result FROM jobs_job WHERE id = %s", [job])
    assert (result, effect(fleet, job)[0]) == (f"attempt {by}", "done")
    assert fleet.numbers(job)["attempt"] == 2


@pytest.mark.parametrize(("crash", "lines"), [("before it happens", 0), ("after it happened", 1)])
def test_an_effect_without_a_probe_waits_for_a_person(
    fleet: Fleet, log: Path, crash: str, lines: int
) -> None:
    fleet.dispatcher()
    fleet.worker()
    job = fleet.enqueue("test.outside", {"log": str(log), "crash": crash})
    fleet.await_state(job, "failed")
    assert len(log.read_text().split()) == lines
    assert effect(fleet, job) == ("in_doubt", 1)
    found = fleet.query("SELECT reason, state FROM jobs_deadletter WHERE job_id = %s", [job])
    assert found == [("in_doubt", "open")]


def test_an_outcome_that_was_written_needs_no_probe(fleet: Fleet, log: Path) -> None:
    fleet.dispatcher()
    fleet.worker()
    job = fleet.enqueue("test.outside", {"log": str(log), "crash": "after the outcome"})
    fleet.await_state(job, "succeeded")
    assert log.read_text() == "1\n"


def test_a_worker_that_freezes_in_its_call_and_thaws_late(
    fleet: Fleet, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    fleet.dispatcher()
    frozen = fleet.worker()
    job = fleet.enqueue("test.outside", {"log": str(log), "gate": str(gate)})
    executor = fleet.running(job)
    wait_until(lambda: fleet.query("SELECT 1 FROM jobs_effect"), message="the intent is there")
    frozen.pause()
    fleet.worker()
    fleet.await_state(job, "failed")  # the successor does not dare to call
    assert (log.read_text(), effect(fleet, job)) == ("", ("in_doubt", 1))
    gate.touch()
    os.kill(executor, signal.SIGCONT)  # its handler goes on, and its supervisor sleeps
    wait_until(lambda: effect(fleet, job)[0] == "done", message="what happened is written down")
    frozen.proceed()
    assert log.read_text() == "1\n"
    assert fleet.state(job) == "failed"


def test_coroutines_have_effects_and_breakers_too(fleet: Fleet, log: Path) -> None:
    fleet.dispatcher()
    fleet.worker("--concurrency=4")
    ids = [fleet.enqueue("test.async_outside", {"log": str(log)}) for _ in range(5)]
    fleet.await_final()
    assert fleet.states() == {"succeeded": 5}
    assert log.read_text() == "1\n" * 5
    assert {effect(fleet, job) for job in ids} == {("done", 1)}
