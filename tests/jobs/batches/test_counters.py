"""The counters of batches are true, and their callbacks come once."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

import jobs
from jobs.engine.reconcile import expire
from jobs.operate import batchacts, batches
from jobs.operate.cancel import cancel
from tests.jobs.batches.members import CALLBACKS, called, fail, members
from tests.jobs.crowd import at_once
from tests.jobs.factories import (
    a_claim,
    claim_again,
    ended,
    settle,
    somebody_waits,
    state,
    succeed,
)
from tests.specimens.handlers import Echo, Noop
from tests.wait import wait_until

pytestmark = pytest.mark.django_db


# ---- counters and callbacks


def test_all_succeed() -> None:
    batch_id, ids = members(3, **CALLBACKS)
    for job_id in ids[:2]:
        succeed(claim_again(job_id))
    assert (batches.progress(batch_id).state, called()) == ("sealed", [])
    succeed(claim_again(ids[2]))
    progress = batches.progress(batch_id)
    assert (progress.state, progress.succeeded, progress.total) == ("done", 3, 3)
    assert progress.finished_at is not None
    assert called() == ["on_complete", "on_success"]


def test_all_succeed_in_one_statement() -> None:
    batch_id, ids = members(5, **CALLBACKS)
    succeed(*[claim_again(job_id) for job_id in ids])
    assert batches.progress(batch_id).succeeded == 5
    assert called() == ["on_complete", "on_success"]


def test_the_first_failure_is_told_at_once_and_the_second_is_not() -> None:
    batch_id, ids = members(3, **CALLBACKS)
    fail(ids[0])
    assert called() == ["on_failure"]
    fail(ids[1])
    succeed(claim_again(ids[2]))
    assert called() == ["on_complete", "on_failure"]
    progress = batches.progress(batch_id)
    assert (progress.failed, progress.succeeded, progress.state) == (2, 1, "done")


def test_every_way_to_end_has_its_counter(set_clock: Any) -> None:
    start = datetime(2040, 1, 1, tzinfo=UTC)
    set_clock(start)
    with jobs.batch(**CALLBACKS) as batch:
        ids = [batch.add(Noop(), expires=60).id for _ in range(4)]
    succeed(claim_again(ids[0]))
    fail(ids[1])
    cancel(ids[2], by="ada")
    set_clock(start + timedelta(minutes=2))
    assert expire("me") == 1
    progress = batches.progress(batch.id)
    counted = (progress.succeeded, progress.failed, progress.cancelled, progress.expired)
    assert (counted, progress.done, progress.state) == ((1, 1, 1, 1), 4, "done")
    assert called() == ["on_complete", "on_failure"]


def test_a_cancelled_member_is_no_success_and_no_failure() -> None:
    _, ids = members(2, **CALLBACKS)
    succeed(claim_again(ids[0]))
    cancel(ids[1], by="ada")
    assert called() == ["on_complete"]


@pytest.mark.parametrize("ending", ["failed", "released", "crashed", "snoozed"])
def test_what_will_be_tried_again_is_not_counted(ending: Any) -> None:
    batch_id, ids = members(1, **CALLBACKS)
    settle(ended(claim_again(ids[0]), ending))
    assert (batches.progress(batch_id).done, called()) == (0, [])


def test_a_callback_is_a_job_of_the_batchs_tenant_that_names_it() -> None:
    draft = jobs.Draft(Echo(text="x"), queue="other", priority=5, max_attempts=7, timeout=9)
    batch_id, ids = members(1, tenant="acme", on_success=draft)
    succeed(claim_again(ids[0]))
    [job] = jobs.Job.objects.filter(kind="test.echo")
    assert (job.queue, job.priority, job.max_attempts, job.timeout) == ("other", 5, 7, 9)
    assert (job.tenant, job.correlation_id, job.batch_id) == ("acme", str(batch_id), None)
    assert succeed(claim_again(job.id)) == {job.id}


def test_a_stale_success_is_not_counted() -> None:
    batch_id, ids = members(1)
    claim = claim_again(ids[0])
    settle(ended(claim, "released"))
    assert succeed(claim) == set()
    assert batches.progress(batch_id).done == 0


# ---- races


@pytest.mark.django_db(transaction=True)
def test_a_seal_waits_for_who_is_adding() -> None:
    batch = jobs.batch()
    sealed: list[int] = []

    def seal() -> None:
        batches.seal(batch.id)
        sealed.append(1)
        connection.close()

    with transaction.atomic():
        batch.add(Noop())
        thread = threading.Thread(target=seal)
        thread.start()
        wait_until(somebody_waits)
        assert not sealed
    thread.join(10)
    assert batches.progress(batch.id).total == 1


@pytest.mark.django_db(transaction=True)
def test_who_adds_at_the_same_time_does_not_wait() -> None:
    batch = jobs.batch()

    def add() -> UUID:
        with transaction.atomic():
            made = batch.add(Noop()).id
            gate.wait(10)  # all of them are within their transactions here
            return made

    gate = threading.Barrier(6)
    ids = at_once([add] * 6)
    batch.seal()
    assert (len(set(ids)), batches.progress(batch.id).total) == (6, 6)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", range(5))
def test_seal_and_last_ends_meet_and_call_back_once(seed: int) -> None:
    batch = jobs.batch(**CALLBACKS)
    claimed = [claim_again(batch.add(Noop()).id) for _ in range(6)]
    acts: list[Any] = [lambda c=c: succeed(c) for c in claimed]
    acts.insert(seed, batch.seal)
    at_once(acts)
    progress = batches.progress(batch.id)
    assert (progress.state, progress.succeeded, progress.total) == ("done", 6, 6)
    assert called() == ["on_complete", "on_success"]


@pytest.mark.django_db(transaction=True)
def test_counters_are_true_under_ends_cancels_and_retries_at_once() -> None:
    batch_id, ids = members(12, **CALLBACKS)
    claimed = [claim_again(job_id) for job_id in ids[:8]]
    acts: list[Any] = [lambda c=c: succeed(c) for c in claimed[:4]]
    acts += [lambda c=c: settle(ended(c, "unrecoverable")) for c in claimed[4:]]
    acts += [lambda: batchacts.cancel_rest(batch_id, by="x")]
    acts += [lambda: batchacts.retry_failed(batch_id, by="x") for _ in range(3)]
    at_once(acts)
    progress = batches.progress(batch_id)
    found = [state(job_id) for job_id in ids]
    assert progress.succeeded == found.count("succeeded") == 4
    assert progress.failed == found.count("failed")
    assert progress.cancelled == found.count("cancelled")


def test_a_claim_without_a_batch_leaves_batches_alone() -> None:
    batch_id, _ = members(1)
    succeed(a_claim())
    assert batches.progress(batch_id).done == 0
