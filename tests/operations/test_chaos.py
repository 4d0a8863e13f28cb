"""Agents on workers that are killed, and frozen for longer than their leases."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from config.standins.erp.server import Erp
from tests.integration.fleet import QUICK, Program
from tests.operations.factories import order
from tests.operations.office import OURS, SYNCS, Office, Wanted, overlaps
from tests.wait import wait_until

ENDED = "('completed', 'failed', 'cancelled')"
FAULTS = ["drop_after_save", "500_after_save", "garbage_after_save", "drop_before_save", "no_id"]


class Storm:
    """Arrivals, kills and freezes, as a seed has them."""

    def __init__(self, office: Office, seed: int, agents: int, disturbances: int) -> None:
        self.office, self.chance, self.left = office, random.Random(seed), disturbances
        self.agents = [f"agent-{n}" for n in range(agents)]
        self.ids: dict[str, str] = {}
        self.frozen: list[tuple[float, Program]] = []
        self.kills = self.freezes = 0

    def arrivals(self) -> list[list[Wanted]]:
        """Three waves of orders, reads and syncs, shuffled."""
        wanted: list[Wanted] = []
        for agent in self.agents:
            wanted.append((agent, "sync-customers", {}))
            wanted.append((agent, "submit-order", order(f"{agent}-1")))
            if self.chance.random() < 0.5:
                wanted.append((agent, "submit-order", order(f"{agent}-2")))
            if self.chance.random() < 0.3:
                wanted.append((agent, "sync-orders", {}))
            if self.chance.random() < 0.5:
                self.office.erp.script(agent, self.chance.choice(FAULTS))
        self.chance.shuffle(wanted)
        return [wanted[n::3] for n in range(3)]

    def run(self, workers: list[Program], patience: float) -> None:
        waves = self.arrivals()
        began = time.monotonic()

        def is_over() -> bool:
            if waves:
                wave = waves.pop()
                for (_agent, type, _data), id in zip(wave, self.office.ask(*wave), strict=True):
                    self.ids[id] = type
            elif self.left and self.unfinished():
                self.disturb(workers)
            self.thaw()
            return not waves and not self.frozen and not self.unfinished()

        wait_until(is_over, patience, 0.5, "every operation has ended")
        storm = f"{self.kills} kills, {self.freezes} freezes, {self.office.refused()} refused calls"
        seconds = time.monotonic() - began
        print(f"{len(self.ids)} operations, {storm}, {seconds:.0f} s")  # noqa: T201

    def unfinished(self) -> int:
        return int(
            self.office.fleet.value(
                f"SELECT count(*) FROM operations_operation WHERE phase NOT IN {ENDED} "  # noqa: S608
                "AND asked_by = 'tests'"
            )
        )

    def disturb(self, workers: list[Program]) -> None:
        """Kill the executors of a worker, or freeze a worker for longer than its lease."""
        worker = self.chance.choice(workers)
        self.left -= 1
        if self.chance.random() < 0.5 and len(self.frozen) < len(workers) - 1:
            if all(worker is not other for _until, other in self.frozen):
                worker.pause()
                self.frozen.append((time.monotonic() + 4, worker))
                self.freezes += 1
            return
        for pid in self.office.fleet.executors(worker):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.kills += 1

    def thaw(self) -> None:
        for until, worker in list(self.frozen):
            if time.monotonic() > until:
                worker.proceed()
                self.frozen.remove((until, worker))


def weather(office: Office, seed: int, agents: int, disturbances: int, patience: float) -> None:
    """Everything of the promise, after a storm."""
    # Failures of the ERP are not the subject, and an open circuit lasts longer than a test.
    office.settings.update(CALL_TIMEOUT=10, BREAKER_THRESHOLD=1000, BREAKER_OPEN_FOR=1)
    office.jobs.update(QUICK)
    storm = Storm(office, seed, agents, disturbances)
    office.dispatcher()
    workers = [office.worker(OURS), office.worker(OURS), office.worker(SYNCS), office.worker(SYNCS)]
    storm.run(workers, patience)
    ends = {id: office.told(id) for id in storm.ids}
    # Each write is there once or never, and its operation says which.
    writes = [id for id, type in storm.ids.items() if type == "submit-order"]
    for id in writes:
        assert office.is_saved(id) == (ends[id][0] == "completed"), (ends[id], office.steps(id))
    assert office.orders == sum(map(office.is_saved, writes))
    assert office.overlaps() == []
    tally = Counter((storm.ids[id], end[0]) for id, end in ends.items())
    print(tally)  # noqa: T201
    # Nothing stays behind: keys, open operations of ours, files of ended syncs.
    wait_until(lambda: not held(office, storm.ids), 30, 0.1, "no key is held by what has ended")
    kept = {name.partition(".")[0] for name in office.files()}
    assert not kept & set(ends)


def held(office: Office, ids: dict[str, str]) -> int:
    return int(
        office.fleet.value(
            "SELECT count(*) FROM jobs_slot WHERE job_id = ANY(%s::uuid[])", [list(ids)]
        )
    )


@pytest.mark.slow
def test_agents_in_a_storm(office: Office) -> None:
    weather(office, seed=1, agents=8, disturbances=4, patience=240)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 22))
def test_twenty_agents_in_twenty_storms(office: Office, seed: int) -> None:
    weather(office, seed, agents=20, disturbances=12, patience=400)


def test_a_planted_overlap_is_found(tmp_path: Path) -> None:
    """Two calls of one session at a time, which no worker makes."""
    erp = Erp(tmp_path)
    erp.start()
    try:
        body = {"login": "ada", "password": "secret"}
        session = httpx.post(f"{erp.url}/login", json=body).json()["session"]
        headers = {"X-Login": "ada", "X-Session": session}
        erp.slow = 1
        erp.script("ada", "slow_write")

        def submit(reference: str) -> None:
            asked = {"reference": reference, "data": order()}
            httpx.post(f"{erp.url}/operations/submit-order", json=asked, headers=headers)

        slow = threading.Thread(target=submit, args=("one",))
        slow.start()
        wait_until(lambda: erp.book.log)
        httpx.get(f"{erp.url}/orders/1", headers=headers)
        slow.join()
        assert overlaps(erp.book.log) == [("ada", "operations", "orders")]
        # A newer login shuts out the older session.
        httpx.post(f"{erp.url}/login", json=body)
        assert httpx.get(f"{erp.url}/orders/1", headers=headers).status_code == 401
        assert erp.book.log[-1]["step"] == "refused"
    finally:
        erp.stop()
