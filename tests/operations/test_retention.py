"""What is deleted long after its end, and what stays."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

import pytest

import jobs
from config.standins.erp.server import Erp
from jobs import blobs, registry
from jobs.testing import freeze_clock, run_jobs
from operations import retention, verbs
from operations.config import settings
from operations.models import Agent, Document, Operation, Outcome, Phase, SyncRun
from operations.table import OPERATIONS
from tests.operations.factories import ask, order

pytestmark = pytest.mark.django_db


def clear(chunk: int = 1) -> int:
    return sum(found["operations"] for found in retention.clear(False, chunk))


def lose_jobs(*rows: Operation) -> None:
    """As the retention of jobs does."""
    for row in rows:
        jobs.Job.objects.filter(pk=row.pk).delete()


@pytest.fixture
def done(erp: Erp, agent: Agent) -> list[Operation]:
    """Two orders that are completed, and a document."""
    made = [ask("submit-order", order(f"P-{n}")) for n in range(2)]
    run_jobs(["erp-write"])
    made.append(ask("download-ddt-pdf", {"orderId": "4711", "ddtNumber": "D-4711"}))
    for _ in range(2):
        run_jobs(["erp-write", "erp-read"])
    assert {row.phase for row in Operation.objects.filter(pk__in=[m.pk for m in made])} == {
        Phase.COMPLETED
    }
    return made


def test_an_operation_stays_for_ninety_days_and_as_long_as_its_job(done: list[Operation]) -> None:
    first, second, download = done
    key = Document.objects.get().blob
    assert blobs.store().head(key) is not None
    lose_jobs(second, download)
    with freeze_clock() as clock:
        clock.tick(timedelta(days=89))
        assert clear() == 0
        clock.tick(timedelta(days=2))
        assert [found["operations"] for found in retention.clear(True, 1)] == [2]
        assert clear() == 2  # one whose job is kept does not hold up those after it
    assert set(Operation.objects.exclude(type__in=["sync-orders"])) == {first}
    assert not Document.objects.exists()
    assert blobs.store().head(key) is None


@pytest.mark.parametrize("phase", [Phase.IN_DOUBT, Phase.ERP_SAVE_DONE, Phase.QUEUED])
def test_what_is_undecided_stays(done: list[Operation], phase: Phase) -> None:
    Operation.objects.filter(pk=done[0].pk).update(phase=phase)
    lose_jobs(*done)
    with freeze_clock() as clock:
        clock.tick(timedelta(days=400))
        assert clear(10) == 2
    assert Operation.objects.filter(pk=done[0].pk).exists()


def test_deletions_that_are_held_stay(erp: Erp, agent: Agent) -> None:
    ids = []
    for fault in ([], ["empty"]):
        erp.script("ada", *fault)
        ids.append(verbs.sync_now("ada", "sync-customers", by="tests"))
        run_jobs(["erp-sync"])
    assert SyncRun.objects.get(pk=ids[1]).outcome == Outcome.HELD
    jobs.Job.objects.filter(pk__in=ids).delete()
    with freeze_clock() as clock:
        clock.tick(timedelta(days=91))
        assert clear() == 1
    assert list(SyncRun.objects.values_list("pk", flat=True)) == [ids[1]]


def test_an_export_is_kept_for_an_hour(erp: Erp, agent: Agent) -> None:
    folder = settings().exports()
    for name, age in (("new.export", 3000), ("old.export", 4000), ("old.part", 4000)):
        (folder / name).write_bytes(b"")
        os.utime(folder / name, (time.time() - age,) * 2)
    clear()
    assert [path.name for path in folder.iterdir()] == ["new.export"]


def test_the_page_of_an_operation_needs_no_job(done: list[Operation], admin_client: Any) -> None:
    lose_jobs(*done)
    for row in done:
        page = admin_client.get(f"/admin/operations/operation/{row.pk}/change/")
        assert page.status_code == 200 and row.type in page.content.decode()


@pytest.mark.parametrize("type", OPERATIONS)
def test_the_last_jobs_of_each_kind_stay(type: str) -> None:
    found = registry.find(OPERATIONS[type].kind)
    assert found is not None and found.on_timeout == "fail"
    assert (found.keep_completed.last, found.keep_failed.last) == (100, 50)  # type: ignore[union-attr]
