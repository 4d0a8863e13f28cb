"""A meter under several worker processes: never more than its rate in any second."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.fleet import Fleet
from tests.jobs.meters.test_rates import most_in_any
from tests.wait import wait_until

pytestmark = pytest.mark.slow


def calls(log: Path) -> list[tuple[float, int]]:
    """Each call's moment and weight, in their order."""
    lines = [line.split() for line in log.read_text().splitlines()]
    return sorted((float(at), int(weight)) for at, weight in lines if weight != "closed")


def test_three_processes_never_exceed_a_meter_in_any_second(fleet: Fleet, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    log.touch()
    fleet.dispatcher()
    doomed, *_ = [fleet.worker("--concurrency=2") for _ in range(3)]
    for _ in range(6):
        fleet.enqueue("test.metered", {"log": str(log), "calls": 30})
    wait_until(lambda: len(calls(log)) > 60, message="they call")
    doomed.end()  # what it has taken and not used is lost, and its jobs run again elsewhere
    fleet.await_final()
    assert fleet.states() == {"succeeded": 6}
    made = calls(log)
    assert len(made) >= 6 * 30
    assert most_in_any(1.0, made) <= 100


def test_a_meter_that_one_process_closes_is_closed_to_all(fleet: Fleet, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    fleet.dispatcher()
    for _ in range(3):
        fleet.worker("--concurrency=2")
    for n in range(6):
        payload = {"log": str(log), "calls": 5 if n == 0 else 12, "closes": n == 0}
        fleet.enqueue("test.metered", payload)
    fleet.await_final()
    [line] = [line for line in log.read_text().splitlines() if line.endswith("closed")]
    closed = float(line.split()[0])
    # Whoever had taken before the closing was committed may begin its call a moment after it.
    late = [at for at, _ in calls(log) if closed + 0.5 < at < closed + 1.8]
    assert late == []
    assert fleet.value("SELECT sum(failures + releases) FROM jobs_job") == 0
