"""Jobs of every temper while everything under them breaks: none is lost, doubled or run in vain."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.integration.fleet import ClientError, Fleet, Wanted
from tests.integration.injector import Injector, Storm
from tests.wait import wait_until

Temper = tuple[float, str, dict[str, Any], dict[str, Any]]
"""Share in per cent, kind, payload, options."""


@dataclass(frozen=True)
class Run:
    """How many jobs come in, for how long everything breaks, and how soon all is settled then."""

    jobs: int
    seconds: float
    drain: float
    storm: Storm
    harmful: float
    """Share of the jobs that hang, and of those that kill their process, in per cent."""
    pause: float = 0.05
    lapsed: bool = True
    """Whether leases are so short that a busy machine may let them run out."""
    log: Path = field(default=Path())

    def tempers(self) -> dict[str, Temper]:
        # What a crash or a silence costs is no failure, so max_attempts need not allow for them.
        return {
            "atomic": (46, "test.effect", {}, {}),
            "isolated": (2, "test.apart_atomic", {}, {}),
            "plain": (26, "test.noted", {"seconds": self.pause, "log": str(self.log)}, {}),
            "async": (10, "test.async_sleep", {"seconds": self.pause}, {}),
            "flaky": (8, "test.flaky", {"failures": 2}, {}),
            "failing": (4, "test.fail", {}, {}),
            "hanging": (self.harmful, "test.hang", {"how": "deaf"}, {"timeout": 0.5}),
            "deadly": (self.harmful, "test.die", {"how": "kill"}, {}),
            "crashing": (self.harmful, "test.apart", {"how": "segfault"}, {}),
        }


GOOD = ("atomic", "isolated", "plain", "async", "flaky")
SMALL = Run(1000, 45.0, 60.0, Storm(), harmful=2)
# Settled within 30 s of the last fault: ten times what an idle machine needs.
LARGE = Run(
    30_000,
    180.0,
    30.0,
    Storm(
        concurrency=8,
        pause=(1.5, 3.5),
        read_only=3.0,
        locked=6.0,
        used_up=10.0,
        lock_timeout="1s",
        settings={"LEASE": 15.0, "HEARTBEAT": 5.0},
    ),
    harmful=0.1,
    pause=0.02,
    lapsed=False,
)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "seed",
    [pytest.param(1, marks=pytest.mark.slow),
     *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 3))],
)  # fmt: skip
def test_no_fault_loses_or_doubles_a_job(fleet: Fleet, seed: int, tmp_path: Path) -> None:
    weather(fleet, SMALL, seed, tmp_path / "finished")


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_fleet_of_many_jobs_settles_soon_after_the_last_fault(
    fleet: Fleet, tmp_path: Path
) -> None:
    weather(fleet, LARGE, 7, tmp_path / "finished")


def weather(fleet: Fleet, plan: Run, seed: int, log: Path) -> None:
    """Jobs come in while everything breaks; then all is as it would be without."""
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    plan = Run(**{**vars(plan), "log": log})
    injector = Injector(fleet, seed, plan.storm)
    with fleet.connecting(f"-c lock_timeout={plan.storm.lock_timeout}"):
        injector.strengthen()
        jobs = drive(fleet, injector, plan, random.Random(seed))
        injector.end()
        ended_at = time.monotonic()
        print(f"{fleet.unfinished()} unfinished after {dict(injector.counts)}")  # noqa: T201

        course: list[tuple[float, int]] = []

        def drained() -> bool:
            injector.strengthen()
            course.append((round(time.monotonic() - ended_at, 1), fleet.unfinished()))
            return course[-1][1] == 0

        try:
            wait_until(drained, plan.drain, 0.1, f"every job has ended ({injector.counts})")
        finally:
            print(f"after seconds, unfinished: {course[:: len(course) // 10 + 1]}, {course[-1]}")  # noqa: T201
    assert fleet.violations() == []
    states: dict[UUID, str] = dict(fleet.query("SELECT id, state FROM jobs_job"))
    assert set(states) == set(jobs), "every enqueue that was acknowledged, and nothing else"
    wrong = [job for job, temper in jobs.items() if temper in GOOD and states[job] != "succeeded"]
    assert not wrong, (len(wrong), injector.counts)
    assert {states[job] for job, temper in jobs.items() if temper not in GOOD} == {"failed"}
    assert min(injector.counts.values()) >= 2, "every fault has struck"
    assert len(injector.counts) == len(injector._faults)
    assert_nothing_was_done_in_vain(fleet, log, injector.perished(lapsed=plan.lapsed))


def assert_nothing_was_done_in_vain(fleet: Fleet, log: Path, perished: set[int]) -> None:
    """What a process had finished counts, unless the process itself perished."""
    attempts: dict[UUID, int] = dict(
        fleet.query("SELECT id, attempt FROM jobs_job WHERE kind = 'test.noted'")
    )
    ends = [line.split(":") for line in log.read_text().split()]
    vain = [end for end in ends if attempts[UUID(end[0])] != int(end[1])]
    kept = [end for end in vain if int(end[2]) not in perished]
    print(f"of {len(ends)} ends {len(vain)} were lost, {len(kept)} of them by living processes")  # noqa: T201
    assert not kept, Counter(end[2] for end in kept)


def drive(fleet: Fleet, injector: Injector, plan: Run, chance: random.Random) -> dict[UUID, str]:
    """Jobs come in and faults strike; answers the temper of each job."""
    tempers = plan.tempers()
    weights = [share for share, *_ in tempers.values()]
    jobs = {
        UUID(int=chance.getrandbits(128), version=4): temper
        for temper in chance.choices(list(tempers), weights, k=plan.jobs)
    }
    waiting = list(jobs.items())
    began_at = time.monotonic()
    while (passed := time.monotonic() - began_at) < plan.seconds or waiting:
        injector.step()
        due = int(plan.jobs * passed / (plan.seconds - 2)) - (plan.jobs - len(waiting))
        if due > 0 and enqueued(fleet, waiting[:due], tempers):
            del waiting[:due]
        time.sleep(0.05)  # the pace of the run, not a wait for anything
    return jobs


def enqueued(fleet: Fleet, jobs: list[tuple[UUID, str]], tempers: dict[str, Temper]) -> bool:
    """Whether they are there now. A failed call may have been committed: the ids tell."""
    wanted: list[Wanted] = []
    for job_id, temper in jobs:
        _, kind, payload, options = tempers[temper]
        wanted.append((kind, payload, {**options, "job_id": str(job_id)}))
    try:
        fleet.enqueue_all(wanted)
    except ClientError as error:
        return "DuplicateJob" in str(error)
    return True
