"""Erasing: nothing of the user is left, whatever runs meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

import jobs
from config.standins.trading import Coinbase, Fault
from jobs import Job, blobs
from jobs.testing import freeze_clock, run_jobs
from tests.trading.factories import linked
from tests.trading.test_api import Caller
from trading import digesting, erasing, importing, scoring, services, simulating
from trading.clock import now, week_of
from trading.models import (
    BiasTag,
    BrokerConnection,
    Digest,
    ImportRun,
    Insight,
    Rule,
    RuleBreak,
    ScoreRun,
    Simulation,
    Trade,
)
from trading.payloads import EraseSnapshots

pytestmark = pytest.mark.django_db(transaction=True)
MODELS: tuple[Any, ...] = (
    BiasTag, BrokerConnection, Digest, ImportRun, Insight, Rule, RuleBreak, ScoreRun, Simulation,
    Trade,
)  # fmt: skip


def assert_nothing(link: BrokerConnection) -> None:
    assert [model for model in MODELS if model.objects.filter(user=link.user).exists()] == []
    assert list(blobs.store().list(f"digests/{link.user_id}/")) == []
    assert not Job.objects.filter(tenant=f"user:{link.user_id}", finished_at=None).exists()


def digest_of_last_week(link: BrokerConnection) -> None:
    end = week_of(now()).date()
    services.enqueue_digest(link.user_id, end - timedelta(days=7), end)


def test_erasing_leaves_nothing(venue: Coinbase, link: BrokerConnection) -> None:
    ann = Caller("trader")
    ann.post("/rules/upsert", {"kind": "avoidSpikeOverPct"})
    ann.post("/trades/import", {})
    run_jobs()
    digest_of_last_week(link)
    services.simulate(link.user_id, Trade.objects.order_by("ts")[0].pk, 2)
    run_jobs()
    assert all(model.objects.filter(user=link.user).exists() for model in MODELS)
    [row] = Digest.objects.all()
    assert blobs.store().head(row.storage_key) is not None
    assert ann.post("/erase", {"reason": "I leave"}).json()["deleted"]["Trade"] > 0
    run_jobs()
    assert_nothing(link)


def test_an_import_that_waits_is_cancelled(venue: Coinbase, link: BrokerConnection) -> None:
    venue.plan("fills", Fault(429, {"Retry-After": "3600"}))
    job = services.start_import(link, by="tests")
    run_jobs()
    with transaction.atomic():
        erasing.erase(link.user_id)
    run_jobs()
    assert Job.objects.get(pk=job).state == "cancelled"
    assert_nothing(link)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (importing, "_fetch"), (scoring, "_load"), (scoring, "_sentence"),
        (scoring, "_judge"), (digesting, "_load"), (digesting, "_snapshot"),
        (simulating, "curves"),
    ],
)  # fmt: skip
def test_what_runs_meanwhile_leaves_nothing(
    venue: Coinbase, link: BrokerConnection, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    """The data is erased when a step has been taken, before anything of it is written."""
    if module is not importing:
        services.start_import(link, by="tests")
        run_jobs()
        BiasTag.objects.all().delete()
        Insight.objects.all().delete()
    real = getattr(module, name)
    erased: list[bool] = []

    def then_erased(*given: Any, **more: Any) -> Any:
        found = real(*given, **more)
        if not erased:
            erased.append(True)
            with transaction.atomic():
                erasing.erase(link.user_id)
        return found

    monkeypatch.setattr(module, name, then_erased)
    if module is importing:
        services.start_import(link, by="tests")
    elif module is scoring:
        services.rescore(link.user_id)
    elif module is digesting:
        digest_of_last_week(link)
    else:
        services.simulate(link.user_id, Trade.objects.order_by("ts")[0].pk, 2)
    run_jobs()
    assert erased
    assert_nothing(link)


def test_snapshots_are_deleted_once_the_store_is_back(
    venue: Coinbase, link: BrokerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.start_import(link, by="tests")
    run_jobs()
    digest_of_last_week(link)
    run_jobs()
    with monkeypatch.context() as away:
        away.setattr(blobs, "store", lambda: (_ for _ in ()).throw(OSError("away")))
        with transaction.atomic():
            erasing.erase(link.user_id)
        run_jobs()
    [job] = Job.objects.filter(kind="trading.erase_snapshots")
    assert job.state == "pending" and job.failures == 1
    with freeze_clock() as clock:
        clock.tick(60)
        run_jobs()
    assert_nothing(link)


def test_a_digest_written_after_erasing_keeps_its_snapshot(
    venue: Coinbase, link: BrokerConnection
) -> None:
    services.start_import(link, by="tests")
    run_jobs()
    with transaction.atomic():
        erasing.erase(link.user_id)
    again = linked(venue.accounts[str(link.key_name)])
    services.start_import(again, by="tests")
    run_jobs()
    digest_of_last_week(again)
    with transaction.atomic():
        jobs.enqueue(EraseSnapshots(userId=link.user_id), tenant=f"user:{link.user_id}")
    run_jobs()
    [row] = Digest.objects.all()
    assert blobs.store().head(row.storage_key) is not None
