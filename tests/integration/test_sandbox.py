"""Parsers of a worker: none takes it along, and none outlives it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.integration.fleet import Fleet, is_alive
from tests.wait import wait_until

pytestmark = pytest.mark.slow
ENDS = {
    "words": "ok", "fails": "error", "eats_memory": "oom", "spins": "cpu_limit",
    "aborts": "crashed", "segfaults": "crashed", "connects": "error",
}  # fmt: skip


@pytest.fixture
def document(tmp_path: Path) -> str:
    path = tmp_path / "document"
    path.write_text("one two")
    return str(path)


def test_hostile_files_cost_a_worker_nothing(fleet: Fleet, document: str) -> None:
    fleet.dispatcher()
    worker = fleet.worker()
    made = {
        act: fleet.enqueue("test.parse", {"path": document, "act": act, "cpu": 1})
        for act in [*ENDS, *ENDS]
    }
    for act, job in made.items():
        fleet.await_state(job, "succeeded")
        [(result,)] = fleet.query("SELECT result FROM jobs_job WHERE id = %s", [job])
        assert result["status"] == ENDS[act], (act, result)
    numbers = fleet.query("SELECT DISTINCT attempt, failures, crashes FROM jobs_job")
    assert numbers == [(1, 0, 0)] and worker.alive


def test_a_parser_dies_with_its_executor(fleet: Fleet, document: str) -> None:
    fleet.dispatcher()
    worker = fleet.worker()
    wait_until(lambda: fleet.executors(worker), 30, message="the worker is ready")
    helpers = {c for pid in fleet.executors(worker) for c in psutil.Process(pid).children()}
    job = fleet.enqueue("test.parse", {"path": document, "act": "sleeps"})
    executor = psutil.Process(fleet.running(job))
    wait_until(lambda: set(executor.children()) - helpers, 30, message="it parses")
    [parser] = set(executor.children()) - helpers
    os.kill(executor.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(parser), 10, message="the parser is gone")
    wait_until(lambda: fleet.numbers(job)["attempt"] == 2, message="it runs again")
