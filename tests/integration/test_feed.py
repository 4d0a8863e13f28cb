"""The feed with real processes: relays die, and nobody who reads it notices."""

from __future__ import annotations

import random
import signal
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from tests.integration.fleet import Fleet, Program
from tests.wait import wait_until


class Reader:
    """Polls the feed and remembers all that it has seen."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.seen: list[tuple[Any, ...]] = []

    def poll(self) -> int:
        """How many events there are by now; none was missed and none came twice."""
        position = self.seen[-1][0] if self.seen else 0
        self.seen += self._fleet.query(
            "SELECT position, topic, key, payload FROM jobs_feed WHERE position > %s "
            "ORDER BY position",
            [position],
        )
        assert [row[0] for row in self.seen] == list(range(1, len(self.seen) + 1))
        return len(self.seen)

    def count(self, topic: str) -> int:
        self.poll()
        return sum(row[1] == topic for row in self.seen)


def relay(fleet: Fleet) -> Program:
    return fleet.manage(f"relay{fleet._count}", "jobs", "relay")


@pytest.mark.slow
def test_relays_die_and_every_event_is_told_once_and_in_order(fleet: Fleet) -> None:
    draw = random.Random(5)
    relays = [relay(fleet), relay(fleet)]
    dispatcher = fleet.dispatcher()
    fleet.worker()
    reader = Reader(fleet)
    size = 300
    for start in range(0, size, 100):
        fleet.enqueue_all([("test.tells", {"number": n}, {}) for n in range(start, start + 100)])
        fleet.enqueue_all([("test.moves", {"number": n}, {}) for n in range(start, start + 100)])
        already = reader.poll()
        wait_until(lambda seen=already: reader.poll() > seen, 20)  # type: ignore[misc]
        relays.pop(draw.randrange(2)).send(signal.SIGKILL)
        if start == 100:
            dispatcher.send(signal.SIGKILL)
            fleet.dispatcher()
        relays.append(relay(fleet))
    fleet.await_final(40)
    wait_until(lambda: not fleet.value("SELECT count(*) FROM jobs_outbox"), 20)
    reader.poll()
    told = Counter(row[3]["number"] for row in reader.seen if row[1] == "test.told")
    assert told == Counter(range(size))
    assert reader.count("jobs.job.succeeded") == size
    for moves in by_job(reader).values():
        assert all((a, b) in LEGAL for a, b in pairwise(moves)), moves
        assert (moves[0], moves[-1]) == ("claimed", "succeeded"), moves


LEGAL = {("claimed", "retried"), ("retried", "claimed"), ("claimed", "succeeded")}


def by_job(reader: Reader) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for _, topic, key, _ in reader.seen:
        if topic.startswith("jobs.job."):
            found.setdefault(key, []).append(topic.removeprefix("jobs.job."))
    return found


@pytest.mark.slow
def test_a_killed_worker_is_told_of(fleet: Fleet) -> None:
    fleet.dispatcher()
    worker = fleet.worker("--concurrency=1", "--processes=1")
    job_id = fleet.enqueue("test.sleep", {"seconds": 60.0})
    fleet.running(job_id)
    reader = Reader(fleet)
    worker.kill()
    wait_until(lambda: reader.count("jobs.job.lost") == 1, 40)
    [lost] = [row for row in reader.seen if row[1] == "jobs.job.lost"]
    assert lost[3]["job"] == str(job_id) and lost[3]["kind"] == "test.sleep"
    fleet.cancel(job_id)


@pytest.mark.slow
def test_a_relay_goes_when_it_is_told(fleet: Fleet) -> None:
    program = relay(fleet)
    wait_until(lambda: "moves events" in program.logged(), 20)
    program.send(signal.SIGTERM)
    assert program.ended(10) == 0
