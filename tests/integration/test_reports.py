"""``manage.py jobs run`` in a project with Django's default LOGGING and an error tracker."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.fleet import Fleet, Program
from tests.wait import wait_until

pytestmark = pytest.mark.slow
SECRET = "hunter2hunter2"


class Host:
    """A host's ``jobs run``, what it prints, and what its tracker has sent."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet, self.sent = fleet, folder / "events.jsonl"
        self.sent.touch()
        env = {
            "DJANGO_SETTINGS_MODULE": "tests.integration.default_logging",
            "FLEET_TRACKER": str(self.sent),
        }
        arguments = ("jobs", "run", "--processes=1", "--concurrency=2")
        self.program: Program = fleet.manage(f"host-{folder.name}", *arguments, env=env)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.sent.read_text().splitlines()]

    def end(self) -> str:
        """Everything that it has printed, once it has ended."""
        self.program.send(signal.SIGTERM)
        assert self.program.ended() == 0
        return self.program.logged()


@pytest.fixture
def host(fleet: Fleet, tmp_path: Path) -> Host:
    return Host(fleet, tmp_path)


def test_a_failing_handler_leaves_a_traceback_and_one_event(fleet: Fleet, host: Host) -> None:
    broken = fleet.enqueue("test.fail", {"message": f"it is broken, password={SECRET}"})
    fine = fleet.enqueue_all([("test.noop", {}, {})] * 20)
    fleet.await_final()
    assert fleet.numbers(broken)["failures"] == 2
    shown = host.end()
    assert len(fine) == 20 and "test.noop" not in shown
    assert "listens to" in shown  # lines of level INFO
    assert shown.count("Traceback (most recent call last)") == 2
    assert "raise ValueError(payload.message)" in shown
    assert SECRET not in shown
    assert shown.count(" WARNING jobs.attempts ") == shown.count(" ERROR jobs.attempts ") == 1
    [event] = host.events()
    assert event["extra"] == {"job_id": str(broken), "kind": "test.fail", "tenant": ""}
    told = event["exception"]
    assert (told["type"], told["value"]) == ("ValueError", "it is broken, password=***")
    [frame] = told["frames"]
    assert (frame["function"], frame["module"]) == ("fail", "tests.specimens.handlers")
    assert frame["vars"] == "{}"


def test_a_job_whose_process_dies_and_one_that_hangs_make_one_event_each(
    fleet: Fleet, host: Host
) -> None:
    dies = fleet.enqueue("test.die", {"how": "exit"})
    hangs = fleet.enqueue("test.hang", {"how": "deaf"})
    fleet.await_final(60)
    assert (fleet.state(dies), fleet.state(hangs)) == ("failed", "failed")
    host.end()
    seen = {one["extra"]["job_id"]: one["line"] for one in host.events()}
    assert len(host.events()) == len(seen) == 2
    assert "crash_loop" in seen[str(dies)] and "Crash: " in seen[str(dies)]
    assert "(timeout)" in seen[str(hangs)]


def test_a_job_of_a_machine_that_is_gone_makes_one_event(fleet: Fleet, host: Host) -> None:
    log = str(fleet.folder / "noted")
    job = fleet.enqueue("test.noted_once", {"log": log, "seconds": 60}, timeout=100)
    pid = fleet.running(job)
    worker = next(p for p in host.program.family() if p.pid == pid).parent()
    assert worker is not None
    os.kill(worker.pid, signal.SIGKILL)  # its family dies with it
    fleet.await_state(job, "failed")
    wait_until(host.events)
    host.end()
    [event] = host.events()
    assert "(in_doubt)" in event["line"] and event["extra"]["job_id"] == str(job)
