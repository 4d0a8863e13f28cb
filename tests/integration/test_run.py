"""``manage.py jobs run``: programs that are kept running and end together."""

from __future__ import annotations

import itertools
import os
import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.fleet import Fleet, Program, is_alive
from tests.jobs.ports import free_port
from tests.wait import wait_until

pytestmark = pytest.mark.slow
_numbers = itertools.count()


def manage(fleet: Fleet, *arguments: str, **options: Any) -> Program:
    return fleet.manage(f"run{next(_numbers)}", "jobs", "run", *arguments, **options)


def start(fleet: Fleet, *arguments: str, **options: Any) -> Program:
    """A foreman whose worker has opened its lease."""
    program = manage(fleet, "--processes=1", "--concurrency=2", *arguments, **options)
    wait_until(lambda: live(fleet), message="an executor lives")
    return program


def live(fleet: Fleet) -> int:
    found = fleet.value("SELECT count(*) FROM jobs_lease WHERE dead_at IS NULL AND NOT draining")
    return int(found)


def pid_of(program: Program, name: str) -> int:
    return int(re.findall(rf"{name} is process (\d+)", program.logged())[-1])


def state(fleet: Fleet, job_id: object) -> str:
    return str(fleet.value("SELECT state FROM jobs_job WHERE id = %s", [job_id]))


def succeeds(fleet: Fleet) -> Callable[[], bool]:
    job_id = fleet.enqueue("test.noop")
    return lambda: state(fleet, job_id) == "succeeded"


def test_jobs_are_run_and_sigterm_ends_everything(fleet: Fleet) -> None:
    program = start(fleet)
    later = fleet.enqueue("test.noop", {}, delay=0.2)
    wait_until(succeeds(fleet))
    wait_until(lambda: state(fleet, later) == "succeeded")
    family = program.family()
    assert len(family) >= 4
    program.send(signal.SIGTERM)
    assert program.ended() == 0
    assert not any(map(is_alive, family))
    assert live(fleet) == 0


def test_every_line_says_whose_it_is(fleet: Fleet) -> None:
    program = start(fleet)
    wait_until(lambda: "listens to" in program.logged())
    lines = program.logged().splitlines()
    assert all(re.match(r"(run|dispatcher|worker-1) +\| ", line) for line in lines), lines


@pytest.mark.parametrize("name", ["worker-1", "dispatcher"])
def test_what_is_killed_is_started_again(fleet: Fleet, name: str) -> None:
    program = start(fleet)
    killed = pid_of(program, name)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: pid_of(program, name) != killed)
    assert f"{name} was killed by SIGKILL; starting it again in 0.2 s" in program.logged()
    later = fleet.enqueue("test.noop", {}, delay=0.1)
    wait_until(lambda: state(fleet, later) == "succeeded")


def test_nothing_outlives_a_killed_foreman(fleet: Fleet) -> None:
    program = start(fleet)
    family = program.family()
    program.kill()
    wait_until(lambda: not any(map(is_alive, family)))


def test_running_jobs_end_before_the_worker_does(fleet: Fleet) -> None:
    program = start(fleet)
    job_id = fleet.enqueue("test.sleep", {"seconds": 1.5})
    wait_until(lambda: state(fleet, job_id) == "running")
    os.killpg(program.pid, signal.SIGINT)  # what Ctrl-C does: everything in the terminal hears it
    assert program.ended() == 0
    assert state(fleet, job_id) == "succeeded"


def test_a_second_signal_hurries(fleet: Fleet) -> None:
    """Even a worker that is so slow that it has not heard the first one yet."""
    program = start(fleet, jobs={"DRAIN": 100.0})
    job_id = fleet.enqueue("test.sleep", {"seconds": 100.0})
    wait_until(lambda: state(fleet, job_id) == "running")
    worker = pid_of(program, "worker-1")
    os.kill(worker, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(worker).status() == psutil.STATUS_STOPPED)
    for passed_on in (signal.SIGTERM, signal.SIGINT):
        program.send(signal.SIGTERM)
        wait_until(lambda number=passed_on: waits_for(worker, number))  # type: ignore[misc]
    os.kill(worker, signal.SIGCONT)
    assert program.ended() == 0
    assert state(fleet, job_id) == "pending"


def waits_for(pid: int, number: signal.Signals) -> bool:
    """Whether the process has been sent the signal and has not heard it yet."""
    status = Path(f"/proc/{pid}/status").read_text()
    [pending] = re.findall(r"^ShdPnd:\s+(\w+)$", status, re.MULTILINE)
    return bool(int(pending, 16) & 1 << (number - 1))


def test_a_program_that_keeps_dying_is_started_ever_less_often(fleet: Fleet) -> None:
    program = manage(fleet, "--web=192.0.2.1:1")
    wait_until(lambda: "starting it again in 0.5 s" in program.logged(), 20)
    assert "web exited with code 1; starting it again in 0.2 s" in program.logged()
    assert is_alive(psutil.Process(pid_of(program, "dispatcher")))


def test_the_web_server_answers(fleet: Fleet) -> None:
    port = free_port()
    program = start(fleet, f"--web={port}", env={"HTTPS": "off"})

    def answer() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/admin/", timeout=2) as page:
                return str(page.read().decode())
        except OSError:
            return ""

    assert "csrfmiddlewaretoken" in wait_until(answer)
    assert f"pages are served at http://127.0.0.1:{port}/" in program.logged()
    program.send(signal.SIGTERM)
    assert program.ended() == 0


def test_a_stuck_job_of_one_group_never_interrupts_another(fleet: Fleet) -> None:
    """Its executor is killed; what the others run goes on in the same attempt."""
    groups = {"stuck": {"queues": ["default"], "concurrency": 3}, "calm": {"queues": ["calm"]}}
    program = start(fleet, jobs={"WORKERS": groups})
    wait_until(lambda: live(fleet) == 2, message="both groups have an executor")
    neighbour = fleet.enqueue("test.sleep", {"seconds": 60})
    calm = [fleet.enqueue("test.sleep", {"seconds": 60}, queue="calm") for _ in range(2)]
    executor = {fleet.running(job) for job in calm}
    assert fleet.running(neighbour) not in executor
    stuck = fleet.enqueue("test.hang", {"how": "native"}, timeout=0.5)
    fleet.await_state(stuck, "failed")
    wait_until(lambda: fleet.numbers(neighbour)["releases"] == 1)
    # And where the whole worker of a group goes, it is started again, and the others stay.
    killed = pid_of(program, "stuck-1")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: pid_of(program, "stuck-1") != killed)
    wait_until(succeeds(fleet))
    for job in calm:
        assert {fleet.running(job)} == executor
        assert fleet.numbers(job) == {"attempt": 1, "failures": 0, "crashes": 0, "releases": 0}
    rows = fleet.query("SELECT worker, queues FROM jobs_lease WHERE dead_at IS NULL")
    assert {name.partition("@")[0]: queues for name, queues in rows} == {
        "stuck": ["default"],
        "calm": ["calm"],
    }
    for job in (*calm, neighbour):
        fleet.cancel(job)
    fleet.await_final()


def test_a_machine_may_run_some_of_the_groups(fleet: Fleet) -> None:
    groups = {"one": {"queues": ["default"]}, "two": {"queues": ["other"]}}
    program = start(fleet, "--group=two", jobs={"WORKERS": groups})
    served = fleet.enqueue("test.noop", queue="other")
    fleet.await_state(served, "succeeded")
    assert "one-1" not in program.logged()
    assert fleet.query("SELECT DISTINCT queues FROM jobs_lease") == [(["other"],)]
