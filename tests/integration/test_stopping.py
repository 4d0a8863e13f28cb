"""A running job is told to stop: in time, for the right reason, gently where that is enough."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from tests.integration.fleet import Fleet
from tests.wait import PATIENCE, wait_until

UNHARMED = {"attempt": 1, "failures": 0, "crashes": 0, "releases": 0}
MANY = 20
CALM = {"LEASE": 120.0, "HEARTBEAT": 50.0}
SOON = 20.0
"""Seconds for what waits for no heartbeat, lease or timeout; a fraction of one is usual."""


class Notes:
    """What the handlers wrote down."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def find(self, job_id: UUID, word: str) -> list[float]:
        """The moments at which the job wrote the word."""
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [float(at) for one, _, what, at in lines if (one, what) == (str(job_id), word)]

    def words(self, job_id: UUID) -> list[str]:
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [f"{attempt} {what}" for one, attempt, what, _ in lines if one == str(job_id)]

    def await_word(self, job_id: UUID, word: str, timeout: float = PATIENCE) -> float:
        return wait_until(
            lambda: self.find(job_id, word), timeout, 0.005, f"job {job_id} wrote {word!r}"
        )[0]


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "notes")


def last_move(fleet: Fleet, job_id: UUID, to: str) -> list[str]:
    """Who made the job's last move to the state, and why."""
    [found] = fleet.query(
        "SELECT h->>1, h->>4 FROM jobs_job j, jsonb_array_elements(j.history) h "
        "WHERE j.id = %s AND h->>2 = %s ORDER BY h->>0 DESC LIMIT 1",
        [job_id, to],
    )
    return list(found)


# ---- cancel


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("test.obey", "checkpoint"),
        ("test.obey", "callback"),
        ("test.async_obey", "sleep"),
        ("test.async_obey", "signal"),
    ],
)
def test_a_cancel_arrives_in_time(fleet: Fleet, notes: Notes, kind: str, how: str) -> None:
    fleet.dispatcher()
    fleet.worker(f"--concurrency={MANY}", jobs=CALM)
    payload = {"log": str(notes.path), "how": how}
    ids = fleet.enqueue_all([(kind, payload, {})] * MANY)
    for job in ids:
        notes.await_word(job, "begun")
    for job in ids:
        fleet.cancel(job, reason="enough")
        notes.await_word(job, "cancelled", SOON)
    fleet.await_final()
    assert fleet.states() == {"cancelled": MANY}
    assert fleet.numbers(ids[0]) == UNHARMED
    assert last_move(fleet, ids[0], "cancelled") == ["running", "cancelled"]


def test_a_cancel_needs_no_redis(fleet: Fleet, notes: Notes) -> None:
    fleet.dispatcher()
    fleet.worker()
    job = fleet.enqueue("test.obey", {"log": str(notes.path)})
    notes.await_word(job, "begun")
    fleet.valkey.stop()
    fleet.cancel(job)
    notes.await_word(job, "cancelled", SOON)
    fleet.await_state(job, "cancelled")


def test_a_job_that_finishes_first_stays_succeeded(fleet: Fleet, notes: Notes) -> None:
    fleet.dispatcher()
    fleet.worker()
    job = fleet.enqueue("test.obey", {"log": str(notes.path), "how": "finish"})
    notes.await_word(job, "begun")
    fleet.cancel(job)
    fleet.await_state(job, "succeeded")
    assert fleet.value("SELECT result #>> '{}' FROM jobs_job WHERE id = %s", [job]) == "cancelled"


@pytest.mark.parametrize("how", ["deaf", "spin", "native"])
def test_force_ends_who_does_not_stop_and_spares_the_others(fleet: Fleet, how: str) -> None:
    fleet.dispatcher()
    worker = fleet.worker("--concurrency=3", jobs={"CANCEL_GRACE": 0.5})
    neighbours = [fleet.enqueue("test.sleep", {"seconds": 30.0}) for _ in range(2)]
    executor = fleet.running(neighbours[0])
    assert fleet.running(neighbours[1]) == executor
    stuck = fleet.enqueue("test.hang", {"how": how}, timeout=60)  # may let no other thread begin
    assert fleet.running(stuck) == executor
    began = time.monotonic()
    fleet.cancel(stuck, force=True, reason="no more")
    fleet.await_state(stuck, "cancelled", SOON)
    assert time.monotonic() - began > 0.5
    assert fleet.numbers(stuck)["failures"] == 0
    for job in neighbours:
        assert fleet.running(job) != executor
        assert fleet.numbers(job) == {"attempt": 2, "failures": 0, "crashes": 0, "releases": 1}
    assert worker.alive
    for job in neighbours:
        fleet.cancel(job)
    fleet.await_final()


def test_without_force_who_does_not_stop_goes_on(fleet: Fleet, notes: Notes) -> None:
    fleet.dispatcher()
    fleet.worker(jobs={"CANCEL_GRACE": 0.1})
    job = fleet.enqueue("test.obey", {"log": str(notes.path), "how": "deaf", "seconds": 1.5})
    notes.await_word(job, "begun")
    fleet.cancel(job)
    fleet.await_state(job, "succeeded")
    assert notes.words(job) == ["1 begun", "1 cancelled"]


# ---- each reason reaches the handler, and has an edge of its own


def test_a_timeout_says_so_and_is_a_failure(fleet: Fleet, notes: Notes) -> None:
    fleet.dispatcher()
    fleet.worker()
    job = fleet.enqueue("test.obey", {"log": str(notes.path)}, timeout=0.3, max_attempts=2)
    fleet.await_state(job, "failed")
    assert notes.words(job) == ["1 begun", "1 timeout", "2 begun", "2 timeout"]
    assert last_move(fleet, job, "pending") == ["running", "timeout"]
    assert fleet.numbers(job) == {**UNHARMED, "attempt": 2, "failures": 2}
    assert fleet.query("SELECT DISTINCT outcome FROM jobs_attempt") == [("timeout",)]


@pytest.mark.parametrize("how", ["checkpoint", "deaf"])
def test_a_timeout_may_be_final(fleet: Fleet, notes: Notes, how: str) -> None:
    fleet.dispatcher()
    fleet.worker(jobs={"GRACE": 0.3})
    payload = {"log": str(notes.path), "how": how}
    job = fleet.enqueue("test.strict", payload, timeout=0.3, max_attempts=5)
    fleet.await_state(job, "failed")
    assert fleet.numbers(job) == {**UNHARMED, "failures": 1}
    assert fleet.value("SELECT reason FROM jobs_deadletter WHERE job_id = %s", [job]) == "timeout"


@pytest.mark.parametrize("kind", ["test.obey", "test.async_obey"])
def test_a_shutdown_says_so_and_costs_nothing(fleet: Fleet, notes: Notes, kind: str) -> None:
    fleet.dispatcher()
    worker = fleet.worker(jobs={"DRAIN": 1.0})
    job = fleet.enqueue(kind, {"log": str(notes.path)})
    notes.await_word(job, "begun")
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    assert notes.words(job) == ["1 begun", "1 shutdown"]
    assert fleet.state(job) in ("pending", "queued")
    assert last_move(fleet, job, "pending") == ["running", "shutdown"]
    assert fleet.numbers(job) == {**UNHARMED, "releases": 1}


@pytest.mark.parametrize("kind", ["test.obey", "test.async_obey"])
def test_a_lease_that_cannot_be_renewed_says_so(fleet: Fleet, notes: Notes, kind: str) -> None:
    fleet.dispatcher()
    fleet.worker(jobs={"LEASE": 4.0})
    job = fleet.enqueue(kind, {"log": str(notes.path)})
    fleet.running(job)
    with psycopg.connect(fleet.postgres.url) as other, other.transaction():
        other.execute("SELECT FROM jobs_lease FOR UPDATE")
        notes.await_word(job, "lease_lost")
        wait_until(lambda: fleet.numbers(job)["releases"] == 1)
    assert last_move(fleet, job, "pending") == ["running", "lease_lost"]
    fleet.running(job)
    fleet.cancel(job)
    fleet.await_state(job, "cancelled")
    assert fleet.numbers(job) == {**UNHARMED, "attempt": 2, "releases": 1}


@pytest.mark.parametrize("kind", ["test.obey", "test.async_obey"])
def test_a_preemption_says_so_and_costs_nothing(fleet: Fleet, notes: Notes, kind: str) -> None:
    fleet.dispatcher()
    fleet.worker("--concurrency=2")
    payload = {"log": str(notes.path)}
    job = fleet.enqueue(kind, payload, exclusive="k")
    notes.await_word(job, "begun")
    urgent = fleet.enqueue("test.urgent", {**payload, "seconds": 0.2}, exclusive="k", priority=9)
    fleet.await_state(urgent, "succeeded")
    assert notes.words(job)[:2] == ["1 begun", "1 preempted"]
    assert last_move(fleet, job, "pending") == ["running", "preempted"]
    fleet.running(job)
    fleet.cancel(job)
    fleet.await_final()
    assert fleet.numbers(job) == {**UNHARMED, "attempt": 2}
    assert fleet.value("SELECT preemptions FROM jobs_job WHERE id = %s", [job]) == 1
