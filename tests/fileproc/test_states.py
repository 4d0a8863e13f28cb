"""The moves of files, and the counters of their batches."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

import jobs
from fileproc import stages, states
from fileproc.errors import Refused
from fileproc.models import Batch, File, FileStatus, Stage
from fileproc.services import announcing, batches, confirming, deleting, retrying
from jobs import blobs
from jobs.models import DeadLetter
from jobs.operate import deadletters
from tests.fileproc.conftest import process, upload

ALLOWED = {
    "registered": {"uploaded", "queued", "failed"},
    "uploaded": {"queued", "failed"},
    "queued": {"extracting", "chunking", "embedding", "failed"},
    "extracting": {"chunking", "failed"},
    "chunking": {"embedding", "failed"},
    "embedding": {"ready", "failed"},
    "ready": set(),
    "failed": {"queued"},
}
EVERY = list(itertools.product(FileStatus.values, FileStatus.values))


@pytest.mark.django_db
@pytest.mark.parametrize(("source", "to"), EVERY)
def test_the_whole_table_of_moves(source: str, to: str) -> None:
    batch = batches.create("user:1", 1)
    Batch.objects.filter(pk=batch.pk).update(**{source: 1})
    file = File.objects.create(
        batch=batch, owner="user:1", name="a.txt", size=1, status=source, blob_key="fileproc/a"
    )
    if to in ALLOWED[source]:
        states.files.move(file, to)
    else:
        with pytest.raises(jobs.errors.IllegalMove):
            states.files.move(file, to)
    batch.refresh_from_db()
    assert getattr(batch, File.objects.get().status) == 1 and batch.registered_count == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["confirm", "fail", "retry", "cancel", "delete", "seal", "expire", "run"]),
        st.integers(0, 3),
    ),
    max_size=14,
)


@pytest.mark.django_db(transaction=False)
@settings(max_examples=15)
@given(STEPS)
def test_counters_are_the_states_of_the_files(steps: list[tuple[str, int]]) -> None:
    with transaction.atomic():
        _walk(steps)
        transaction.set_rollback(True)


def _walk(steps: list[tuple[str, int]]) -> None:
    batch = batches.create("user:1", 5)
    files = []
    for n in range(4):
        made = batches.register("user:1", batch.pk, announcing.Announced(f"{n}.txt", 5))
        assert made.file is not None
        blobs.store().write(made.file.blob_key, b"%05d" % n)
        files.append(made.file)
    for what, n in steps:
        try:
            with transaction.atomic():
                _do(what, files[n], batch)
        except (Refused, jobs.errors.IllegalMove, jobs.errors.StaleState):
            pass
        _check(batch)


def _do(what: str, file: File, batch: Batch) -> None:
    owner, moment = batch.owner, batch.pk
    if what == "confirm":
        heads = confirming.heads(owner, moment, [file.pk])
        confirming.confirm(owner, moment, [confirming.Arrival(file.pk)], heads, by="tests")
    elif what == "retry":
        retrying.retry(owner, file.pk, by="tests")
    elif what == "delete":
        deleting.delete(owner, file.pk)
    elif what == "cancel":
        batches.cancel(owner, moment, by="tests")
    elif what == "seal":
        batches.seal(owner, moment)
    elif what == "expire":
        Batch.objects.filter(pk=moment).update(expires_at="2020-01-01T00:00Z")
        batches.expire(moment)
    else:
        fresh = states.lock(moment, file.pk)
        if fresh is not None and what == "fail":
            states.fail(fresh, "DAMAGED", by="tests")
        elif fresh is not None:
            states.files.walk(fresh, ["extracting", "chunking", "embedding", "ready"])


def _check(batch: Batch) -> None:
    batch.refresh_from_db()
    rows = File.objects.shown().filter(batch=batch).values_list("status", flat=True)
    counted = Counter(rows)
    told = {name: getattr(batch, name) for name in FileStatus.values}
    assert told == {name: counted[name] for name in FileStatus.values}
    assert batch.file_count >= batch.registered_count
    if batch.status == "completed":
        assert batch.processed_count == batch.file_count
    if batch.status == "active":
        assert batch.processed_count < batch.file_count


@pytest.mark.django_db
def test_an_expired_batch_fails_what_never_came_and_goes_on_with_the_rest() -> None:
    from fileproc import upkeep

    [good] = upload(("a.txt", b"words"), count=3)
    late = batches.register("user:1", good.batch_id, announcing.Announced("b.txt", 5)).file
    assert late is not None
    Batch.objects.update(expires_at="2020-01-01T00:00Z")
    assert upkeep.expire_batches() == 1
    late.refresh_from_db()
    assert (late.status, late.error_code) == ("failed", "NOT_UPLOADED")
    process(4)
    batch = Batch.objects.get()
    assert (batch.status, batch.file_count, batch.ready, batch.failed) == ("completed", 2, 1, 1)
    assert upkeep.expire_batches() == 0


@pytest.mark.django_db
def test_a_batch_that_nobody_used_is_expired() -> None:
    from fileproc import upkeep

    batch = batches.create("user:1", 3)
    Batch.objects.update(expires_at="2020-01-01T00:00Z")
    upkeep.expire_batches()
    batch.refresh_from_db()
    assert (batch.status, batch.file_count) == ("expired", 0)
    with pytest.raises(Refused, match="over"):
        batches.register("user:1", batch.pk, announcing.Announced("a.txt", 5))


@pytest.mark.django_db
def test_a_file_whose_jobs_are_gone_is_restarted_and_at_last_fails(settings: Any) -> None:
    from fileproc import upkeep

    [file] = upload(("a.txt", b"words"))
    assert upkeep.restart_stuck() == 0  # it waits its turn
    for _ in range(3):
        _lose(file)
        assert upkeep.restart_stuck() == 1
    file.refresh_from_db()
    assert file.status == "queued"
    process(4)
    file.refresh_from_db()
    assert file.status == "ready"
    [again] = upload(("b.txt", b"others"))
    for _ in range(4):
        _lose(again)
        upkeep.restart_stuck()
    again.refresh_from_db()
    assert (again.status, again.error_code) == ("failed", "INTERNAL_ERROR")


def _lose(file: File) -> None:
    for run in file.runs.order_by("-pk"):
        if jobs.Job.objects.filter(pk=run.job_id, state__in=["pending", "blocked"]).exists():
            jobs.cancel(run.job_id, by="tests", reason="lost")
    jobs.Job.objects.filter(kind="fileproc.cancel").delete()
    File.objects.filter(pk=file.pk).update(moved_at="2020-01-01T00:00Z")


@pytest.mark.django_db
def test_a_closed_dead_letter_ends_the_stages_that_wait_for_it() -> None:
    from fileproc import upkeep

    [file] = upload(("a.pdf", b"%PDF-1.4 broken"))
    process(6)
    waiting = jobs.Job.objects.filter(state="blocked", kind__startswith="fileproc.")
    assert waiting.count() == 2
    File.objects.update(moved_at=timezone.now() - timedelta(minutes=2))
    assert upkeep.cancel_closed() == 0, "somebody may retry it"
    deadletters.discard_letter(DeadLetter.objects.get().pk, by="root", reason="a broken file")
    assert upkeep.cancel_closed() == 2
    assert not waiting.exists()
    retrying.retry("user:1", file.pk, by="ana")  # its owner still may
    assert jobs.Job.objects.filter(kind="fileproc.extract", state="pending").exists()


def test_every_stage_has_a_state() -> None:
    assert set(states.STATE_OF) == set(Stage) and stages.WAIT > 0
