"""What looks like a contradiction and is none, and what is stuck."""

from __future__ import annotations

import pytest

import jobs
from jobs.engine import leases
from jobs.ids import uuid7
from jobs.operate.doctor import violations
from jobs.testing import run_jobs
from tests.operate.doctor.plants import STUCK
from tests.operate.doctor.rows import found, holding, run, running
from tests.specimens.handlers import Fail, Noop

pytestmark = pytest.mark.django_db


def test_the_heir_of_a_paused_key_does_not_alarm() -> None:
    job_id = holding()
    run("UPDATE jobs_job SET state = 'pending', queued_at = NULL, wait = 2 WHERE id = %s", [job_id])
    assert "slot_has_holder" in found()
    run("INSERT INTO jobs_closure (scope, why) VALUES ('key:door', 'paused')")
    assert "slot_has_holder" not in found()


def test_a_batch_whose_members_were_deleted_after_its_end_is_sound() -> None:
    with jobs.batch("two") as batch:
        batch.add(Noop())
    run_jobs()
    run("DELETE FROM jobs_job WHERE batch_id = %s", [batch.id])
    assert violations() == []


def test_a_batch_that_lost_members_and_was_opened_again_is_sound() -> None:
    with jobs.batch("two") as batch:
        batch.add(Noop())
        batch.add(Fail(), max_attempts=1)
    run_jobs()
    run("DELETE FROM jobs_job WHERE batch_id = %s AND state = 'succeeded'", [batch.id])
    [job] = jobs.Job.objects.filter(batch_id=batch.id)
    jobs.retry(job.id, by="tester")
    assert violations() == []
    run_jobs()
    assert violations() == []


@pytest.mark.parametrize("name", STUCK)
def test_what_is_stuck_is_found_while_an_executor_is_free(name: str) -> None:
    jobs.enqueue(Noop())
    run(STUCK[name])
    assert name not in found()
    leases.open_lease(uuid7(), "tester", ["default"], 1)
    assert name in found()


@pytest.mark.parametrize("name", ["queued_is_taken", "due_is_dispatched"])
def test_a_busy_fleet_is_not_stuck(name: str) -> None:
    running()
    jobs.enqueue(Noop())
    run(f"{STUCK[name]} WHERE state = 'pending'")
    assert name not in found()


@pytest.mark.parametrize("name", ["queued_is_taken", "due_is_dispatched"])
def test_what_is_closed_is_not_stuck(name: str) -> None:
    jobs.enqueue(Noop())
    run(STUCK[name])
    leases.open_lease(uuid7(), "tester", ["default"], 1)
    assert name in found()
    run("INSERT INTO jobs_closure (scope, why) VALUES ('queue:default', 'paused')")
    assert name not in found()


@pytest.mark.parametrize(
    "wait",
    [
        "UPDATE jobs_job SET wait = 2",
        "INSERT INTO jobs_limiter (scope) VALUES ('kind:test.noop')",
    ],
)
def test_what_waits_for_its_turn_is_not_stuck(wait: str) -> None:
    jobs.enqueue(Noop())
    run(STUCK["due_is_dispatched"])
    leases.open_lease(uuid7(), "tester", ["default"], 1)
    assert "due_is_dispatched" in found()
    run(wait)
    assert "due_is_dispatched" not in found()
