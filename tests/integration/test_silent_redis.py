"""Redis falls silent and its connections stay open: work that has begun is not touched by it."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from tests.integration.fleet import QUICK, Fleet, Program
from tests.redis import Proxy
from tests.wait import wait_until

UNHARMED = {"attempt": 1, "failures": 0, "crashes": 0, "releases": 0}
ENDS_WITHIN = 5.0
"""Seconds beyond the drain in which every process has ended."""
SLACK = 5.0
"""Seconds that a slow machine may add to what is promised."""
GOES_ON_WITHIN = 10.0
"""Seconds after which work goes on when Redis answers again."""


@pytest.fixture
def network(fleet: Fleet) -> Iterator[Proxy]:
    """What lies between the fleet's processes and its Redis."""
    with contextlib.closing(Proxy(fleet.valkey.url)) as proxy:
        yield proxy


@dataclass
class Trial:
    """A hole in the network that lasts longer than jobs and leases do."""

    fleet: Fleet
    network: Proxy
    settings: dict[str, Any]
    figures: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.env = {"REDIS_URL": self.network.url}
        self.began = 0.0

    def worker(self, *arguments: str) -> Program:
        return self.fleet.worker(*arguments, env=self.env, jobs=self.settings)

    def dispatcher(self) -> Program:
        return self.fleet.dispatcher(env=self.env, jobs=self.settings)

    def cut(self) -> None:
        self.network.set("hole")
        self.began = time.monotonic()

    def await_moment(self, seconds: float) -> None:
        """So long after the cut."""
        wait_until(lambda: time.monotonic() - self.began >= seconds, seconds + 5)

    def end(self, *programs: Program, drain: float) -> None:
        """The processes are told to end, and do."""
        asked = time.monotonic()
        for program in programs:
            program.send(signal.SIGTERM)
        for program in programs:
            assert program.ended(drain + ENDS_WITHIN + SLACK) == 0
            self.figures[f"{program.name} ended"] = time.monotonic() - asked

    def heal(self) -> None:
        job = self.fleet.enqueue("test.noop")
        self.network.set("up")
        healed = time.monotonic()
        self.fleet.await_state(job, "succeeded", GOES_ON_WITHIN + SLACK)
        self.figures["went on"] = time.monotonic() - healed


def run(trial: Trial, hole: float, seconds: float, drain: float) -> None:
    fleet = trial.fleet
    dispatcher, other = trial.dispatcher(), trial.dispatcher()
    worker = trial.worker("--concurrency=4", "--processes=2")
    leaving = trial.worker("--concurrency=1", "--queues=other")
    long = {"timeout": 10 * seconds}
    left = fleet.enqueue("test.hang", {"how": "polite"}, queue="other", **long)
    jobs = fleet.enqueue_all([("test.sleep", {"seconds": seconds}, long)] * 6)
    for job in (left, *jobs):
        fleet.running(job)
    executors = fleet.executors(worker)
    trial.cut()
    trial.await_moment(hole / 3)
    trial.end(other, leaving, drain=drain)
    trial.await_moment(hole)
    assert fleet.executors(worker) == executors
    trial.heal()
    fleet.cancel(left, force=True)
    fleet.await_final(seconds + 30)
    assert [fleet.state(job) for job in jobs] == ["succeeded"] * len(jobs)
    assert [fleet.numbers(job) for job in jobs] == [UNHARMED] * len(jobs)
    trial.end(worker, dispatcher, drain=drain)


@pytest.mark.slow
def test_jobs_outlive_a_silence_that_is_longer_than_a_lease(fleet: Fleet, network: Proxy) -> None:
    settings = {"LEASE": 2.0, "HEARTBEAT": 0.5, "DRAIN": 1.0}
    run(Trial(fleet, network, settings), hole=6.0, seconds=5.0, drain=1.0)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_jobs_of_50_seconds_outlive_a_silence_of_60(fleet: Fleet, network: Proxy) -> None:
    settings = {"LEASE": 15.0, "HEARTBEAT": 5.0, "DRAIN": 25.0}
    trial = Trial(fleet, network, settings)
    run(trial, hole=60.0, seconds=50.0, drain=25.0)
    assert all(seconds < 25.0 + ENDS_WITHIN for seconds in trial.figures.values())
    assert trial.figures["went on"] < GOES_ON_WITHIN
    print({name: round(seconds, 1) for name, seconds in trial.figures.items()})  # noqa: T201


@pytest.mark.slow
def test_the_database_is_served_while_redis_is_silent(fleet: Fleet, network: Proxy) -> None:
    """A dispatcher has duties that need no Redis; they are not late for it."""
    trial = Trial(fleet, network, QUICK)
    trial.dispatcher()
    first = fleet.enqueue("test.noop", expires=0.1)
    fleet.await_state(first, "expired")
    trial.cut()
    trial.await_moment(4.0)  # by now the dispatcher has noticed
    ends: list[UUID] = [fleet.enqueue("test.noop", expires=0.1) for _ in range(2)]
    began = time.monotonic()
    for job in ends:
        fleet.await_state(job, "expired", 2.5)
    assert time.monotonic() - began < 2.5
