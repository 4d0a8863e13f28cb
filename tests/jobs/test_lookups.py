"""``jobs.get`` and the reads of ``Job.objects``."""

from __future__ import annotations

from uuid import UUID

import pytest

import jobs
from jobs.errors import TooSlow, UnknownJob
from jobs.models import Job
from jobs.operate import depths, reads
from tests.jobs.factories import a_claim, a_job, ended, settle
from tests.operate.test_depths import plant
from tests.specimens.handlers import Echo, Noop

pytestmark = pytest.mark.django_db


def ids(*found: Job) -> set[UUID]:
    return {job.id for job in found}


def test_a_job_is_found_by_its_id_as_a_uuid_and_as_text() -> None:
    job = a_job()
    assert jobs.get(job).id == jobs.get(str(job)).id == job


@pytest.mark.parametrize("wrong", [UUID(int=7), str(UUID(int=7)), "17", ""])
def test_what_is_no_job_is_an_unknown_job(wrong: UUID | str) -> None:
    with pytest.raises(UnknownJob, match="there is no job"):
        jobs.get(wrong)


def test_jobs_are_found_by_state_kind_queue_and_tenant() -> None:
    failed, others = a_claim(queue="lanes", tenant="acme"), a_job(payload=Echo(text="x"))
    settle(ended(failed, "unrecoverable"))
    found = Job.objects.failed().of_kind(failed.kind).of_queue("lanes").for_tenant("acme")
    assert ids(*found.newest()) == {failed.id}
    assert Job.objects.failed().for_tenant("umbrella").newest() == []
    assert ids(*Job.objects.of_kind("test.echo", Noop).unfinished().newest()) == {others}


def test_the_words_mean_what_the_overview_counts() -> None:
    plant()
    total = depths.totals(depths.by_queue(None))
    for name in ("waiting", "running", "scheduled", "retrying"):
        counted = getattr(Job.objects, name)().count_up_to()
        assert counted == total[name].value > 0, name


def test_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        a_job()
    assert len(Job.objects.newest(2)) == Job.objects.count_up_to(2) == 2
    for wrong in (0, 10_001):
        with pytest.raises(ValueError, match="limit must lie between"):
            Job.objects.newest(wrong)
    slow = Job.objects.extra(where=["pg_sleep(1) IS NOT NULL"])
    monkeypatch.setattr(reads.bounded.__wrapped__, "__defaults__", (0.05,))  # type: ignore[attr-defined]
    with pytest.raises(TooSlow):
        slow.newest()
