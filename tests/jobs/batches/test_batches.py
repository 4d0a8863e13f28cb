"""Batches: open, sealed, looked at, and what a person may do with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

import jobs
from jobs.models import Batch
from jobs.operate import batchacts, batches
from jobs.operate.replay import replay
from tests.jobs.batches.members import CALLBACKS, called, fail, members
from tests.jobs.factories import (
    claim_again,
    ended,
    row,
    settle,
    state,
    succeed,
)
from tests.specimens.handlers import Echo, Noop

pytestmark = pytest.mark.django_db


# ---- open


def test_an_open_batch_grows_one_by_one_and_by_many() -> None:
    batch = jobs.batch("import", tenant="acme")
    one = batch.add(Noop())
    many = batch.add_many([Noop(), jobs.Draft(Echo(text="x"), priority=3)])
    assert {row(job_id).batch_id for job_id in (one.id, *many)} == {batch.id}
    assert {row(job_id).tenant for job_id in (one.id, *many)} == {"acme"}
    assert row(many[1]).priority == 3
    progress = batches.progress(batch.id)
    assert (progress.name, progress.state, progress.total, progress.done) == (
        "import",
        "open",
        3,
        0,
    )
    assert (progress.eta, progress.finished_at) == (None, None)


def test_a_member_may_have_another_tenant() -> None:
    batch = jobs.batch(tenant="acme")
    ids = [batch.add(Noop(), tenant="b").id, *batch.add_many([jobs.Draft(Noop(), tenant="c")])]
    assert [row(job_id).tenant for job_id in ids] == ["b", "c"]


def test_members_may_end_before_the_batch_is_sealed() -> None:
    batch = jobs.batch(**CALLBACKS)
    succeed(claim_again(batch.add(Noop()).id))
    fail(batch.add(Noop()).id)
    assert (batches.progress(batch.id).state, called()) == ("open", ["on_failure"])
    batch.seal()
    progress = batches.progress(batch.id)
    assert (progress.state, progress.succeeded, progress.failed) == ("done", 1, 1)
    assert called() == ["on_complete", "on_failure"]


def test_left_by_an_exception_it_stays_open() -> None:
    with pytest.raises(ValueError, match="no"), jobs.batch() as batch:
        batch.add(Noop())
        raise ValueError("no")
    assert batches.progress(batch.id).state == "open"


def test_an_empty_batch_is_done_when_it_is_sealed() -> None:
    batch_id, _ = members(0, **CALLBACKS)
    assert batches.progress(batch_id).state == "done"
    assert called() == ["on_complete", "on_success"]


@pytest.mark.django_db(transaction=True)
def test_a_rollback_takes_the_batch_and_its_members_along() -> None:
    with transaction.atomic():
        batch_id, _ = members(3)
        transaction.set_rollback(True)
    assert (Batch.objects.count(), jobs.Job.objects.count()) == (0, 0)
    with pytest.raises(jobs.errors.UnknownBatch):
        batches.progress(batch_id)


# ---- bad input


def test_nothing_is_added_to_a_sealed_batch() -> None:
    batch = jobs.batch()
    batch.add(Noop())
    batch.seal()
    for add in (lambda: batch.add(Noop()), lambda: batch.add_many([Noop(), Noop()])):
        with pytest.raises(jobs.errors.InvalidOption, match="is sealed; only an open one grows"):
            add()
    assert jobs.Job.objects.count() == 1


def test_a_batch_is_sealed_once() -> None:
    batch_id, ids = members(1)
    with pytest.raises(jobs.errors.NotAllowed, match="it is sealed; it must be open"):
        batches.seal(batch_id)
    succeed(claim_again(ids[0]))
    with pytest.raises(jobs.errors.NotAllowed, match="it is done"):
        batches.seal(batch_id)


@pytest.mark.parametrize(
    "act",
    [
        batches.seal,
        batches.progress,
        lambda b: batchacts.cancel_rest(b, by="ada"),
        lambda b: batchacts.retry_failed(b, by="ada"),
    ],
)
def test_an_unknown_batch_is_named(act: Any) -> None:
    with pytest.raises(jobs.errors.UnknownBatch):
        act(uuid4())


def test_a_member_of_an_unknown_batch_is_refused() -> None:
    for enqueue in (
        lambda: jobs.enqueue(Noop(), batch=uuid4()),
        lambda: jobs.enqueue_many([jobs.Draft(Noop()), jobs.Draft(Noop(), batch=uuid4())]),
    ):
        with pytest.raises(jobs.errors.InvalidOption, match="there is no batch"):
            enqueue()
    assert jobs.Job.objects.count() == 0


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("name", {"name": "x\0"}),
        ("name", {"name": "x" * 201}),
        ("tenant", {"tenant": "a\x1fb"}),
        ("on_success", {"on_success": jobs.Draft(Noop(), exclusive="k")}),
        ("on_success", {"on_success": jobs.Draft(Noop(), unique=jobs.Unique("k"))}),
        ("on_complete", {"on_complete": jobs.Draft(Noop(), batch=uuid4())}),
        ("on_complete", {"on_complete": jobs.Draft(Noop(), after=[uuid4()])}),
        ("on_failure", {"on_failure": jobs.Draft(Noop(), delay=5)}),
        ("on_failure", {"on_failure": jobs.Draft(Noop(), job_id=uuid4())}),
        ("payload", {"on_success": "no payload"}),
    ],
)
def test_bad_options_are_named_and_nothing_is_written(option: str, options: Any) -> None:
    with pytest.raises(jobs.errors.EnqueueError, match=option):
        jobs.batch(**options)
    assert Batch.objects.count() == 0


# ---- progress


def test_progress_tells_rate_and_what_is_left(set_clock: Any) -> None:
    start = datetime(2040, 1, 1, tzinfo=UTC)
    set_clock(start)
    batch_id, ids = members(10)
    claimed = [claim_again(job_id) for job_id in ids[:4]]
    set_clock(start + timedelta(seconds=20))
    succeed(*claimed)
    progress = batches.progress(batch_id)
    assert progress.rate == pytest.approx(0.2)
    assert progress.eta == pytest.approx(30)
    set_clock(start + timedelta(hours=1))
    later = batches.progress(batch_id)
    assert (later.rate, later.eta) == (0.0, None)


def test_large_batches_are_not_walked_to_tell_how_fast_they_go(
    set_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = datetime(2040, 1, 1, tzinfo=UTC)
    set_clock(start)
    batch_id, ids = members(4)
    claims_ = [claim_again(job_id) for job_id in ids[:2]]
    set_clock(start + timedelta(seconds=20))
    succeed(*claims_)
    set_clock(start + timedelta(seconds=100))
    monkeypatch.setattr(batches, "LOOK_LIMIT", 3)

    with CaptureQueriesContext(connection) as queries:
        progress = batches.progress(batch_id)

    assert progress.rate == pytest.approx(0.02)
    assert progress.eta == pytest.approx(100)
    assert not [one["sql"] for one in queries if "FROM jobs_job WHERE" in one["sql"]]


def test_progress_tells_causes_the_most_frequent_first() -> None:
    batch_id, ids = members(4)
    for job_id, error in zip(ids, ["ValueError", "OSError", "OSError"], strict=False):
        fault = jobs.outcomes.Fault(error, "as told: twice")
        settle(ended(claim_again(job_id), "unrecoverable", fault=fault))
    causes = batches.progress(batch_id).causes
    assert list(causes.items()) == [("OSError", 2), ("ValueError", 1)]


# ---- what a person may do


def test_the_rest_is_cancelled() -> None:
    batch_id, ids = members(4, **CALLBACKS)
    succeed(claim_again(ids[0]))
    running = claim_again(ids[1])
    assert batchacts.cancel_rest(batch_id, by="ada", reason="enough") == 3
    assert [state(i) for i in ids] == ["succeeded", "running", "cancelled", "cancelled"]
    assert row(running.id).cancel_reason == "enough"
    settle(ended(running, "cancelled"))
    assert (batches.progress(batch_id).state, called()) == ("done", ["on_complete"])
    assert batchacts.cancel_rest(batch_id, by="ada") == 0


def test_what_failed_is_retried() -> None:
    batch_id, ids = members(7, **CALLBACKS)
    for job_id in ids[:5]:
        fail(job_id)
    succeed(*[claim_again(job_id) for job_id in ids[5:]])
    assert batchacts.retry_failed(batch_id, by="ada", reason="mended", attempts=2) == 5
    progress = batches.progress(batch_id)
    assert (progress.failed, progress.generation, progress.state) == (0, 2, "sealed")
    succeed(*[claim_again(job_id) for job_id in ids[:5]])
    assert batches.progress(batch_id).succeeded == 7
    assert called() == ["on_complete", "on_complete", "on_failure", "on_success"]


def test_what_runs_on_by_a_replay_is_not_retried() -> None:
    batch_id, ids = members(2)
    for job_id in ids:
        fail(job_id)
    replay(ids[0], by="ada")
    assert batchacts.retry_failed(batch_id, by="ada") == 1
    assert [state(i) for i in ids] == ["failed", "pending"]
    progress = batches.progress(batch_id)
    assert (progress.failed, progress.done, progress.state) == (1, 1, "sealed")
