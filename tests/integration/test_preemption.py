"""An exclusive key goes to who matters more, at once, and never to two."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.integration.fleet import Fleet
from tests.integration.test_stopping import SOON, Notes
from tests.wait import wait_until

KEY: dict[str, Any] = {"exclusive": "agent:7"}


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "notes")


def begin(fleet: Fleet, notes: Notes, kind: str, *, priority: int = 0, **payload: Any) -> UUID:
    """A job that holds the key and has begun."""
    job = fleet.enqueue(kind, {"log": str(notes.path), **payload}, priority=priority, **KEY)
    notes.await_word(job, "begun")
    return job


def arrive(fleet: Fleet, notes: Notes, priority: int = 9, **payload: Any) -> UUID:
    """An urgent job wants the key."""
    full = {"log": str(notes.path), "seconds": 0.3, **payload}
    return fleet.enqueue("test.urgent", full, priority=priority, **KEY)


def preemptions(fleet: Fleet, job: UUID) -> int:
    return int(fleet.value("SELECT preemptions FROM jobs_job WHERE id = %s", [job]))


def test_the_newcomer_runs_at_once_and_the_preempted_one_afterwards(
    fleet: Fleet, notes: Notes
) -> None:
    fleet.dispatcher()
    fleet.worker("--concurrency=4")
    holder = begin(fleet, notes, "test.obey")
    # Older, and of the same key: it must not slip in between.
    patient = fleet.enqueue("test.obey", {"log": str(notes.path), "seconds": 0.1}, **KEY)
    urgent = arrive(fleet, notes)
    notes.await_word(urgent, "begun", SOON)
    assert notes.words(holder) == ["1 begun", "1 preempted"]
    done = notes.await_word(urgent, "done")
    wait_until(lambda: len(notes.find(holder, "begun")) == 2 or notes.find(patient, "begun"))
    assert all(
        at > done for at in [*notes.find(holder, "begun")[1:], *notes.find(patient, "begun")]
    )
    fleet.await_state(urgent, "succeeded")
    fleet.cancel(holder)
    fleet.await_final()
    assert fleet.numbers(holder)["failures"] == fleet.numbers(holder)["releases"] == 0
    assert preemptions(fleet, holder) == 1


def test_who_was_preempted_too_often_may_finish(fleet: Fleet, notes: Notes) -> None:
    limit = {"PREEMPTION_LIMIT": 2}
    fleet.dispatcher(jobs=limit)
    fleet.worker("--concurrency=4", jobs=limit)
    holder = begin(fleet, notes, "test.obey", seconds=1.0)
    for number in (1, 2):
        urgent = arrive(fleet, notes, seconds=0.05)
        fleet.await_state(urgent, "succeeded")
        wait_until(lambda n=number: len(notes.find(holder, "begun")) == n + 1)  # type: ignore[misc]
    last = arrive(fleet, notes, seconds=0.05)
    fleet.await_final()
    assert preemptions(fleet, holder) == 2
    assert notes.find(last, "begun")[0] > notes.find(holder, "done")[0]


@pytest.mark.parametrize(("first", "second"), [(5, 5), (9, 5)])
def test_equals_and_betters_are_left_alone(
    fleet: Fleet, notes: Notes, first: int, second: int
) -> None:
    fleet.dispatcher()
    fleet.worker("--concurrency=4")
    holder = begin(fleet, notes, "test.urgent", priority=first, seconds=0.8)
    newcomer = arrive(fleet, notes, priority=second, seconds=0.05)
    fleet.await_final()
    assert preemptions(fleet, holder) == preemptions(fleet, newcomer) == 0
    assert notes.find(newcomer, "begun")[0] > notes.find(holder, "done")[0]


def test_who_is_not_preemptible_is_left_alone(fleet: Fleet, notes: Notes) -> None:
    fleet.dispatcher()
    fleet.worker("--concurrency=4")
    holder = begin(fleet, notes, "test.strict", seconds=0.8)
    newcomer = arrive(fleet, notes, seconds=0.05)
    fleet.await_final()
    assert notes.words(holder) == ["1 begun", "1 done"]
    assert notes.find(newcomer, "begun")[0] > notes.find(holder, "done")[0]


def test_an_old_waiter_does_not_hide_an_urgent_one(fleet: Fleet, notes: Notes) -> None:
    """Of those who wait, the best may be too unimportant to preempt, because it is old."""
    fleet.dispatcher()
    fleet.worker("--concurrency=4")
    holder = begin(fleet, notes, "test.obey", priority=3)
    old = arrive(fleet, notes, priority=0)
    wait_until(lambda: fleet.value("SELECT wait FROM jobs_job WHERE id = %s", [old]) == 2)
    fleet.query("UPDATE jobs_job SET rank = rank - 3600000 WHERE id = %s", [old])
    urgent = arrive(fleet, notes, priority=9)
    notes.await_word(urgent, "begun", SOON)
    assert notes.words(holder)[:2] == ["1 begun", "1 preempted"]
    fleet.cancel(holder)
    fleet.await_final()


def test_who_cannot_start_does_not_preempt(fleet: Fleet, notes: Notes) -> None:
    fleet.dispatcher()
    fleet.worker("--concurrency=4")
    holder = begin(fleet, notes, "test.obey", seconds=1.2)
    fleet.query("INSERT INTO jobs_pause (scope, reason, by) VALUES ('kind:test.urgent', '', 'me')")
    wait_until(lambda: fleet.query("SELECT 1 FROM jobs_closure"))
    paused = arrive(fleet, notes)
    fleet.await_state(holder, "succeeded")
    assert preemptions(fleet, holder) == 0
    assert fleet.state(paused) == "pending"
    fleet.query("DELETE FROM jobs_pause")
    fleet.await_state(paused, "succeeded")


@pytest.mark.parametrize("turn", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1))])
def test_who_only_waits_for_a_slot_makes_way_before(fleet: Fleet, notes: Notes, turn: int) -> None:
    """All slots are busy, and the list is as full as it gets, when the urgent job comes."""
    fleet.dispatcher()
    fleet.worker("--concurrency=2")
    sleepers = fleet.enqueue_all([("test.sleep", {"seconds": 60}, {})] * 2)
    for job in sleepers:
        fleet.running(job)
    holder = fleet.enqueue("test.obey", {"log": str(notes.path), "seconds": 0.1}, **KEY)
    fleet.await_state(holder, "queued")
    others = fleet.enqueue_all([("test.sleep", {"seconds": 60}, {})] * (6 * turn))
    urgent = arrive(fleet, notes)
    fleet.await_state(urgent, "queued")
    assert (fleet.state(holder), preemptions(fleet, holder)) == ("pending", 1)
    fleet.cancel(sleepers[0])
    notes.await_word(urgent, "begun", SOON)
    done = notes.await_word(urgent, "done")
    for job in [*sleepers[1:], *others]:
        fleet.cancel(job)
    fleet.await_final()
    assert notes.words(holder) == ["1 begun", "1 done"], "it lost no attempt"
    assert notes.find(holder, "begun")[0] > done
    assert fleet.numbers(holder) == {"attempt": 1, "failures": 0, "crashes": 0, "releases": 0}
    assert preemptions(fleet, holder) == 1
    assert fleet.query(OVERLAPS) == []


def preempted_by(fleet: Fleet, job: UUID) -> Any:
    return fleet.value("SELECT preempted_by FROM jobs_job WHERE id = %s", [job])


def test_who_ignores_it_is_killed_where_it_may_be(fleet: Fleet, notes: Notes) -> None:
    grace = {"PREEMPTION_GRACE": 0.5}
    fleet.dispatcher()
    fleet.worker("--concurrency=4", jobs=grace)
    neighbour = fleet.enqueue("test.sleep", {"seconds": 30.0})
    fleet.running(neighbour)
    holder = begin(fleet, notes, "test.obey", how="deaf", seconds=30)
    asked = time.monotonic()
    urgent = arrive(fleet, notes, seconds=0.05)
    assert notes.await_word(urgent, "begun", SOON) - asked > 0.5
    fleet.await_state(urgent, "succeeded")
    fleet.running(holder)
    assert preemptions(fleet, holder) == 1
    assert fleet.numbers(holder) == {"attempt": 2, "failures": 0, "crashes": 0, "releases": 0}
    fleet.running(neighbour)
    assert fleet.numbers(neighbour) == {"attempt": 2, "failures": 0, "crashes": 0, "releases": 1}
    fleet.cancel(holder, force=True)
    fleet.cancel(neighbour)
    fleet.end_programs()


def test_otherwise_the_newcomer_waits(fleet: Fleet, notes: Notes) -> None:
    fleet.dispatcher()
    fleet.worker("--concurrency=4", jobs={"PREEMPTION_GRACE": 0.2})
    holder = begin(fleet, notes, "test.firm", how="deaf", seconds=1.5)
    urgent = arrive(fleet, notes, seconds=0.05)
    fleet.await_final()
    assert notes.words(holder) == ["1 begun", "1 preempted"]
    assert fleet.state(holder) == "succeeded", "it has done its work, after all"
    assert notes.find(urgent, "begun")[0] > notes.find(holder, "preempted")[0]


def test_a_preemption_that_comes_to_nothing_is_no_stop(fleet: Fleet, notes: Notes) -> None:
    """The newcomer is cancelled while it waits for a holder that does not obey."""
    fleet.dispatcher()
    fleet.worker("--concurrency=4", jobs={"PREEMPTION_GRACE": 60})
    holder = begin(fleet, notes, "test.obey", how="deaf", seconds=1.0)
    urgent = arrive(fleet, notes)
    wait_until(lambda: preempted_by(fleet, holder) == urgent)
    fleet.cancel(urgent)
    fleet.await_final()
    assert (fleet.state(urgent), fleet.state(holder)) == ("cancelled", "succeeded")
    later = fleet.enqueue("test.obey", {"log": str(notes.path), "seconds": 0.01}, **KEY)
    fleet.await_state(later, "succeeded")


# ---- frozen and thawed


@pytest.mark.parametrize("seed", range(2))
def test_of_one_key_two_holders_never_both_write(fleet: Fleet, tmp_path: Path, seed: int) -> None:
    """A worker freezes with the key, the key passes on, the worker thaws and writes too late."""
    fleet.dispatcher()
    frozen = fleet.worker("--concurrency=2")
    gate = tmp_path / "gate"
    first = fleet.enqueue("test.effect", {"gate": str(gate)}, **KEY)
    fleet.running(first)
    frozen.pause()
    others = [fleet.enqueue("test.effect", **KEY, priority=9) for _ in range(3)]
    fleet.worker("--concurrency=4")
    fleet.await_state(others[seed], "succeeded")
    # Both attempts of the first one may end now; only what holds the key then is accepted.
    gate.with_suffix(".1").touch()
    frozen.proceed()
    gate.with_suffix(".2").touch()
    fleet.await_final()
    assert fleet.states() == {"succeeded": 4}
    assert fleet.value("SELECT count(*) FROM effects") == 4
    assert fleet.query("SELECT attempt FROM effects WHERE job_id = %s", [first]) == [(2,)]
    assert fleet.query(OVERLAPS) == []


OVERLAPS = """
SELECT a.id, b.id FROM jobs_job a JOIN jobs_job b ON a.exclusive_key = b.exclusive_key
  AND a.id < b.id AND a.started_at < b.finished_at AND b.started_at < a.finished_at
"""


def test_keys_are_held_by_one_at_a_time_under_load(fleet: Fleet, notes: Notes) -> None:
    """Many keys, two workers and two dispatchers, and everybody preempts everybody."""
    for _ in range(2):
        fleet.dispatcher()
        fleet.worker("--concurrency=6", "--processes=2")
    wanted = [
        (
            ("test.obey", "test.urgent", "test.async_obey")[number % 3],
            {"log": str(notes.path), "seconds": 0.02 * (number % 4)},
            {"exclusive": f"k{number % 7}", "priority": number % 19},
        )
        for number in range(210)
    ]
    fleet.enqueue_all(wanted)
    fleet.await_final(40)
    assert fleet.states() == {"succeeded": 210}
    assert fleet.value("SELECT count(*) FROM jobs_slot") == 0
    assert fleet.query(OVERLAPS) == []
