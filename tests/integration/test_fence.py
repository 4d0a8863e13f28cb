"""Workers freeze in the middle of a transaction that is fenced, and thaw when it is too late."""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psutil
import pytest

from tests.integration.fleet import Fleet, is_alive
from tests.wait import wait_until

PACE = 0.3
"""Seconds that a handler spends at each of its three points."""


@dataclass(frozen=True, slots=True)
class Thaw:
    """What a frozen attempt found when it thawed, and what was there when it had ended."""

    state: str
    attempt: int
    before: list[int]
    after: list[int]


def rows(fleet: Fleet, job: UUID) -> list[int]:
    """The attempts whose transactions were committed."""
    found = fleet.query("SELECT attempt FROM effects WHERE job_id = %s ORDER BY 1", [job])
    return [attempt for (attempt,) in found]


def freeze_and_thaw(
    fleet: Fleet,
    folder: Path,
    gate: str = "",
    delay: float = 0.0,
    env: dict[str, str] | None = None,
) -> Thaw:
    """Freeze the worker at a gate or after a delay, longer than its lease, and thaw it.

    It thaws when its other job, which is no further than its first line, has succeeded elsewhere:
    by then whoever takes jobs from the silent has seen this one too.
    """
    fleet.dispatcher()
    frozen = fleet.worker("--concurrency=2", env=env)
    canary = fleet.enqueue("test.fenced", {"folder": str(folder), "gate": "began"})
    payload = {"folder": str(folder), "gate": gate, "pace": 0.0 if gate else PACE}
    job = fleet.enqueue("test.fenced", payload)
    executor = fleet.running(job)
    assert fleet.running(canary) == executor
    if gate:
        wait_until((folder / f"{job}.{gate}").exists, message=f"the handler is at {gate}")
    time.sleep(delay)
    frozen.pause()
    fleet.worker(env=env)
    fleet.await_state(canary, "succeeded")
    if fleet.numbers(job)["attempt"] > 1:
        fleet.await_state(job, "succeeded")
    state, attempt, before = fleet.state(job), fleet.numbers(job)["attempt"], rows(fleet, job)
    for point in ("began", gate or "began"):
        (folder / point).touch()
    process = psutil.Process(executor)
    os.kill(executor, signal.SIGCONT)  # its handler goes on, and its supervisor sleeps
    ended = folder / f"{job}.ended.1"
    wait_until(lambda: ended.exists() or not is_alive(process), message="the handler has ended")
    after = rows(fleet, job)
    frozen.proceed()
    fleet.await_state(job, "succeeded")
    return Thaw(state, attempt, before, after)


def test_a_transaction_that_was_frozen_before_its_fence_commits_nothing(
    fleet: Fleet, tmp_path: Path
) -> None:
    assert freeze_and_thaw(fleet, tmp_path, "wrote") == Thaw("succeeded", 2, [2], [2])
    assert fleet.violations() == []


def test_nobody_gets_a_job_while_a_fenced_transaction_of_it_is_open(
    fleet: Fleet, tmp_path: Path
) -> None:
    found = freeze_and_thaw(fleet, tmp_path, "fenced")
    assert found == Thaw("running", 1, [], [1])


@pytest.mark.slow
def test_without_its_lock_the_fence_would_be_too_early(fleet: Fleet, tmp_path: Path) -> None:
    found = freeze_and_thaw(fleet, tmp_path, "fenced", env={"FLEET_UNLOCKED": "1"})
    assert found == Thaw("succeeded", 2, [2], [1, 2]), "what the test above must notice"
    fleet.query("TRUNCATE effects, jobs_job CASCADE")


def weather(fleet: Fleet, folder: Path, seed: int) -> None:
    """Freeze a transaction at any moment; what succeeded elsewhere stays as it is."""
    delay = random.Random(seed).uniform(0.0, 3 * PACE)
    found = freeze_and_thaw(fleet, folder, delay=delay)
    print(f"seed {seed}: frozen after {delay:.2f} s, {found}")  # noqa: T201 - shown when it fails
    if found.state == "succeeded":
        assert found.after == found.before == [found.attempt]
    else:
        assert (found.attempt, found.before) == (1, [])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_thawed_transaction_changes_nothing_after_a_success_elsewhere(
    fleet: Fleet, tmp_path: Path, seed: int
) -> None:
    weather(fleet, tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4, 24))
def test_many_thawed_transactions_change_nothing(fleet: Fleet, tmp_path: Path, seed: int) -> None:
    weather(fleet, tmp_path, seed)
