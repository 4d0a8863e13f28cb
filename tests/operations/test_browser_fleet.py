"""Agents on browsers whose operations are preempted, cancelled and killed by real workers."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from functools import partial

import pytest

from operations.clients import reaper
from tests.integration.fleet import QUICK, Program
from tests.operations.factories import order
from tests.operations.office import PATIENCE, SYNCS, Office
from tests.wait import wait_until

AGENTS = [f"agent-{n}" for n in range(4)]
ACTS = ("preempt", "cancel", "kill")


def disturb(office: Office, rounds: int, seed: int = 1) -> None:
    """Let each round begin with a sync per agent, one of which is disturbed."""
    chance = random.Random(seed)
    office.client = "browser"
    office.settings.update(CALL_TIMEOUT=30, BREAKER_THRESHOLD=1000)
    office.jobs.update(QUICK)
    office.erp.slow = 1  # a tenth of a second a row
    office.dispatcher()
    workers = [office.worker(concurrency=3), office.worker(SYNCS, concurrency=4)]
    pids: set[int] = set()
    asked: list[str] = []
    counts = dict.fromkeys(ACTS, 0)
    for number in range(rounds):
        act = ACTS[number % len(ACTS)]
        agent = AGENTS[number % len(AGENTS)]
        office.erp.script(agent, "slow_export")
        before = office.erp.calls["exports"]
        [sync] = office.ask((agent, "sync-customers", {}))
        asked.append(sync)
        office.await_phase(sync, "in_progress")
        # Its page, and what is downloaded from there.
        wait_until(partial(has_called, office, before + 2), PATIENCE)
        if act == "preempt":
            asked += office.ask((agent, "submit-order", order(f"P-{number}")))
            office.await_phase(asked[-1], "completed")
        elif act == "cancel":
            assert office.do("cancel", sync) == "cancelling"
        else:
            pids |= kill(office, chance.choice(workers))
        counts[act] += 1
        try:
            office.await_phase(sync, "completed", "cancelled")
        except AssertionError as error:
            facts = office.job(sync, "state", "attempt", "crashes", "releases", "history")
            raise AssertionError(f"{act}: {facts} {office.erp.book.log[-12:]}") from error
    assert set(counts.values()) <= {rounds // 3, rounds // 3 + 1}
    writes = [id for id in asked if office.is_saved(id)]
    assert len(writes) == counts["preempt"] == office.orders
    assert office.overlaps() == []
    pids |= {pid for worker in workers for pid in office.fleet.executors(worker)}
    for worker in workers:
        worker.end()
    wait_until(lambda: not left(pids), 60, message="no browser is left")


def has_called(office: Office, count: int) -> bool:
    return office.erp.calls["exports"] >= count


def kill(office: Office, worker: Program) -> set[int]:
    """Kill the executors of a worker, whose browsers have nobody then."""
    found = set(office.fleet.executors(worker))
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def left(pids: set[int]) -> list[int]:
    """The browsers of these processes."""
    return [pid for pid, mark in reaper.marked() if int(mark.partition(".")[0]) in pids]


@pytest.mark.slow
def test_twenty_disturbances_leave_no_browser(office: Office) -> None:
    disturb(office, 20)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_hundred_disturbances_leave_no_browser(office: Office) -> None:
    disturb(office, 200, seed=2)
