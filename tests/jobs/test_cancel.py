"""Cancelling: what waits ends at once, what runs is asked, what has ended stays as it is."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

import jobs
from jobs.engine import leases
from jobs.models import DeadLetter
from jobs.operate import batches
from jobs.operate.cancel import Cancelled, cancel, cancel_many
from jobs.states import FINAL_STATES, JobState
from tests.jobs.crowd import at_once, outcome
from tests.jobs.factories import (
    a_claim,
    a_job,
    claim_again,
    ended,
    row,
    settle,
    sql,
    state,
    succeed,
)
from tests.specimens.handlers import Fail, Noop

pytestmark = pytest.mark.django_db
WAITING = ["blocked", "pending", "queued"]


@pytest.mark.parametrize("born", WAITING)
def test_what_waits_is_cancelled_at_once(born: str) -> None:
    job_id = a_job(born)
    answer = cancel(job_id, by="ada", reason="not needed")
    assert answer == Cancelled(job_id, JobState.CANCELLED, requested=False)
    job = row(job_id)
    assert (job.state, job.cancel_by, job.cancel_reason) == ("cancelled", "ada", "not needed")
    assert job.finished_at is not None and job.cancel_requested_at is not None
    assert job.queued_at is None
    assert job.history[-1][1:] == [born, "cancelled", "ada", "not needed"]


def test_what_runs_is_asked_and_goes_on() -> None:
    claim = a_claim()
    answer = cancel(claim.id, by="ada", reason="stop it")
    assert answer == Cancelled(claim.id, JobState.RUNNING, requested=True)
    job = row(claim.id)
    assert (job.state, job.cancel_by, job.cancel_reason) == ("running", "ada", "stop it")
    assert job.cancel_requested_at is not None and not job.cancel_forced


def test_a_second_request_may_force_and_does_not_start_the_grace_again() -> None:
    claim = a_claim()
    cancel(claim.id, by="ada", reason="one")
    first = row(claim.id).cancel_requested_at
    cancel(claim.id, by="bob", reason="two", force=True)
    cancel(claim.id, by="eve", reason="three")
    job = row(claim.id)
    assert (job.cancel_requested_at, job.cancel_forced) == (first, True)
    assert (job.cancel_by, job.cancel_reason) == ("eve", "three")


@pytest.mark.parametrize("final", sorted(FINAL_STATES))
def test_what_has_ended_is_left_alone(final: str) -> None:
    job_id = a_job(final)
    before = row(job_id).history
    with pytest.raises(jobs.errors.NotAllowed, match=f"cannot cancel {job_id}: it is {final}"):
        cancel(job_id, by="ada")
    assert (state(job_id), row(job_id).history) == (final, before)


def test_nobody_knows_the_job() -> None:
    with pytest.raises(jobs.errors.UnknownJob):
        cancel(uuid4(), by="ada")


def test_many_at_once_leave_out_what_has_ended() -> None:
    running = a_claim().id
    ids = [a_job("pending"), a_job("succeeded"), running, a_job("queued"), uuid4()]
    found = cancel_many(ids, by="ada")
    assert {job_id: c.requested for job_id, c in found.items()} == {
        ids[0]: False,
        running: True,
        ids[3]: False,
    }


# ---- how the attempt ends after the request


def test_a_job_that_finishes_first_stays_succeeded() -> None:
    claim = a_claim()
    cancel(claim.id, by="ada")
    assert succeed(claim) == {claim.id}
    assert state(claim.id) == "succeeded"
    with pytest.raises(jobs.errors.NotAllowed):
        cancel(claim.id, by="ada")


@pytest.mark.parametrize(
    "ending", ["failed", "timeout", "snoozed", "released", "preempted", "lost"]
)
def test_nothing_is_tried_again_after_a_request(ending: str) -> None:
    claim = a_claim()
    cancel(claim.id, by="ada")
    assert settle(ended(claim, ending)) == {claim.id: JobState.CANCELLED}  # type: ignore[arg-type]
    job = row(claim.id)
    assert (job.state, job.reason, DeadLetter.objects.count()) == ("cancelled", "", 0)


def test_what_is_given_up_is_failed_all_the_same() -> None:
    claim = a_claim(max_attempts=1)
    cancel(claim.id, by="ada")
    settle(ended(claim, "unrecoverable"))
    assert (state(claim.id), DeadLetter.objects.count()) == ("failed", 1)


def test_an_executor_that_dies_takes_the_request_with_it() -> None:
    claim = a_claim()
    cancel(claim.id, by="ada")
    owner = row(claim.id).owner
    assert owner is not None
    assert leases.bury(owner, "w", {}, "gone") == {claim.id: JobState.CANCELLED}


def test_a_retry_forgets_the_request() -> None:
    claim = a_claim()
    cancel(claim.id, by="ada", reason="no", force=True)
    settle(ended(claim, "cancelled"))
    jobs.retry(claim.id, by="bob")
    job = row(claim.id)
    assert (job.state, job.cancel_requested_at, job.cancel_forced) == ("pending", None, False)
    assert (job.cancel_by, job.cancel_reason) == ("", "")
    assert succeed(claim_again(claim.id)) == {claim.id}


# ---- what a cancel owes to others


def test_the_exclusive_key_of_a_queued_job_is_passed_on() -> None:
    first, second = (jobs.enqueue(Noop(), exclusive="k").id for _ in range(2))
    [holder] = feed(5)
    assert {holder} < {first, second}
    waiter = ({first, second} - {holder}).pop()
    assert row(waiter).wait == 2
    cancel(holder, by="ada")
    assert (row(waiter).wait, feed(5)) == (0, [waiter])


def test_children_go_with_their_parent_or_run_or_wait() -> None:
    parent = jobs.enqueue(Noop()).id
    fates = {
        policy: jobs.enqueue(Noop(), after=[parent], on_parent_failure=policy).id
        for policy in ("cancel", "run", "wait")
    }
    grandchild = jobs.enqueue(Noop(), after=[fates["cancel"]]).id
    cancel(parent, by="ada")
    assert {policy: state(job_id) for policy, job_id in fates.items()} == {
        "cancel": "cancelled",
        "run": "pending",
        "wait": "blocked",
    }
    assert state(grandchild) == "cancelled"
    assert row(grandchild).history[-1][3:] == ["its parent", "a parent did not succeed"]


def test_the_batch_counts_it() -> None:
    with jobs.batch() as batch:
        ids = [batch.add(Noop()).id for _ in range(3)]
    cancel_many(ids[:2], by="ada")
    progress = batches.progress(batch.id)
    assert (progress.cancelled, progress.done, progress.state) == (2, 2, "sealed")
    cancel(ids[2], by="ada")
    assert batches.progress(batch.id).state == "done"


def test_a_key_for_unfinished_jobs_is_free_again() -> None:
    first = jobs.enqueue(Fail(), unique=jobs.Unique("k")).id
    cancel(first, by="ada")
    assert not jobs.enqueue(Fail(), unique=jobs.Unique("k")).deduplicated


@pytest.mark.django_db(transaction=True)
def test_of_many_who_cancel_one_does() -> None:
    with jobs.batch() as batch:
        job_id = batch.add(Noop()).id
    answers = at_once([outcome(lambda: cancel(job_id, by="x")) for _ in range(8)])
    assert sum(isinstance(a, Cancelled) for a in answers) == 1
    assert all(isinstance(a, Cancelled | jobs.errors.NotAllowed) for a in answers)
    assert batches.progress(batch.id).cancelled == 1


@pytest.mark.django_db(transaction=True)
def test_a_cancel_and_a_success_at_the_same_moment_agree() -> None:
    for _ in range(10):
        with jobs.batch() as batch:
            job_id = batch.add(Noop()).id
        claim = claim_again(job_id)
        accepted, answer = at_once(
            [lambda c=claim: succeed(c), outcome(lambda j=job_id: cancel(j, by="x"))]  # type: ignore[misc]
        )
        assert accepted == {job_id} and state(job_id) == "succeeded"
        assert isinstance(answer, jobs.errors.NotAllowed) or answer.requested
        assert batches.progress(batch.id).succeeded == 1


def feed(budget: int) -> list[UUID]:
    sql("INSERT INTO jobs_queue (name) VALUES ('default') ON CONFLICT DO NOTHING")
    return [r[0] for r in sql("SELECT id FROM jobs_dispatch('default', %s, 50, '{}')", [budget])]
