"""A thousand jobs of every temper while everything under them breaks: none is lost or doubled."""

from __future__ import annotations

import random
import time
from typing import Any
from uuid import UUID

import pytest

from tests.integration.fleet import ClientError, Fleet, Wanted
from tests.integration.injector import Injector
from tests.wait import wait_until

JOBS = 1000
SECONDS = 40.0
"""So long faults go on while jobs come in."""
DRAIN = 60.0

SHARES: dict[str, tuple[int, str, dict[str, Any], dict[str, Any]]] = {
    # Share in per cent, kind, payload, options. What a crash or a silence costs is no failure,
    # so max_attempts need not allow for them.
    "atomic": (50, "test.effect", {}, {}),
    "plain": (24, "test.sleep", {"seconds": 0.05}, {}),
    "async": (10, "test.async_sleep", {"seconds": 0.05}, {}),
    "flaky": (8, "test.flaky", {"failures": 2}, {}),
    "failing": (4, "test.fail", {}, {}),
    "hanging": (2, "test.hang", {"how": "deaf"}, {"timeout": 0.5}),
    "deadly": (2, "test.die", {"how": "kill"}, {}),
}
GOOD = ("atomic", "plain", "async", "flaky")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_fault_loses_or_doubles_a_job(fleet: Fleet, seed: int) -> None:
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    injector = Injector(fleet, seed)
    injector.strengthen()
    jobs = drive(fleet, injector, random.Random(seed))
    injector.end()
    ended_at = time.monotonic()

    def drained() -> bool:
        injector.strengthen()
        return fleet.unfinished() == 0

    wait_until(drained, DRAIN, 0.1, f"every job has come to an end ({dict(injector.counts)})")
    print(f"drained in {time.monotonic() - ended_at:.1f} s after {dict(injector.counts)}")  # noqa: T201
    assert fleet.violations() == []
    states: dict[UUID, str] = dict(fleet.query("SELECT id, state FROM jobs_job"))
    assert set(states) == set(jobs), "every enqueue that was acknowledged, and nothing else"
    wrong = [job for job, temper in jobs.items() if temper in GOOD and states[job] != "succeeded"]
    assert not wrong, (len(wrong), injector.counts)
    assert {states[job] for job, temper in jobs.items() if temper not in GOOD} == {"failed"}
    assert min(injector.counts.values()) >= 2, "every fault has struck"


def drive(fleet: Fleet, injector: Injector, chance: random.Random) -> dict[UUID, str]:
    """Jobs come in and faults strike; answers the temper of each job."""
    tempers = list(SHARES)
    weights = [share for share, *_ in SHARES.values()]
    jobs = {
        UUID(int=chance.getrandbits(128), version=4): temper
        for temper in chance.choices(tempers, weights, k=JOBS)
    }
    waiting = list(jobs.items())
    began_at = time.monotonic()
    while (passed := time.monotonic() - began_at) < SECONDS or waiting:
        injector.step()
        due = int(JOBS * passed / (SECONDS - 2)) - (JOBS - len(waiting))
        if due > 0 and enqueued(fleet, waiting[:due]):
            del waiting[:due]
        time.sleep(0.05)  # the pace of the run, not a wait for anything
    return jobs


def enqueued(fleet: Fleet, jobs: list[tuple[UUID, str]]) -> bool:
    """Whether they are there now. A failed call may have been committed: the ids tell."""
    wanted: list[Wanted] = []
    for job_id, temper in jobs:
        _, kind, payload, options = SHARES[temper]
        wanted.append((kind, payload, {**options, "job_id": str(job_id)}))
    try:
        fleet.enqueue_all(wanted)
    except ClientError as error:
        return "DuplicateJob" in str(error)
    return True
