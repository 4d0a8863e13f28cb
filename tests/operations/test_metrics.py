"""Metrics and alerts: each sign that the runbook names is told, and goes away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from config.standins.erp.server import Erp
from jobs.metrics import page
from jobs.testing import freeze_clock, run_jobs
from operations import verbs
from operations.clock import now
from operations.models import Agent, Operation, Phase, SyncState
from tests.docs.pages import text
from tests.operations.factories import ask, fetch, order

pytestmark = pytest.mark.django_db
NAMES = (
    "operations_oldest_write_seconds", "operations_waiting", "operations_in_doubt",
    "operations_mismatches", "operations_held_runs", "operations_refused_logins",
    "operations_sync_staleness", "operations_circuits_open", "operations_browser_contexts",
)  # fmt: skip


def told() -> dict[str, Any]:
    """The app's metrics: numbers, or numbers by type."""
    page.forget()
    found: dict[str, Any] = {}
    for family in text_string_to_metric_families(page.text().decode()):
        for sample in family.samples:
            if sample.name.startswith("operations_"):
                if type := sample.labels.get("type"):
                    found.setdefault(sample.name, {})[type] = sample.value
                else:
                    found[sample.name] = sample.value
    return found


def test_nothing_to_do_is_told_as_nothing(agent: Agent) -> None:
    found = told()
    for name in ("oldest_write_seconds", "in_doubt", "mismatches", "held_runs",
                 "refused_logins", "circuits_open"):  # fmt: skip
        assert found[f"operations_{name}"] == 0, name
    assert found.get("operations_sync_staleness", {}) == {}


def test_the_oldest_write_and_what_waits(agent: Agent, erp: Erp) -> None:
    row = ask("submit-order", order())
    ask("sync-customers", {})
    Operation.objects.filter(pk=row.pk).update(created_at=now() - timedelta(minutes=20))
    found = told()
    assert 1200 <= found["operations_oldest_write_seconds"] < 1320
    assert found["operations_waiting"] == {"submit-order": 1, "sync-customers": 1}
    verbs.cancel(row.pk, by="tests", reason="changed")
    assert told()["operations_oldest_write_seconds"] == 0


def test_doubts_and_mismatches_until_somebody_decides(agent: Agent, erp: Erp) -> None:
    erp.script("ada", "wrong_total", "drop_after_save")
    row = ask("submit-order", order("P-1"))
    with freeze_clock():
        run_jobs(["erp-write"])
    assert told()["operations_mismatches"] == 1
    verbs.resolve(row.pk, "accept", by="tests", reason="spoke with them")
    with freeze_clock():
        run_jobs(["erp-write"])
    assert told()["operations_mismatches"] == 0 and fetch(row.pk).phase == Phase.COMPLETED
    Operation.objects.filter(pk=row.pk).update(phase=Phase.IN_DOUBT)
    assert told()["operations_in_doubt"] == 1


def test_held_deletions_and_refused_logins(agent: Agent, erp: Erp) -> None:
    verbs.sync_now("ada", "sync-customers", by="tests")
    run_jobs(["erp-sync"])
    erp.script("ada", "empty")
    held = verbs.sync_now("ada", "sync-customers", by="tests")
    run_jobs(["erp-sync"])
    assert told()["operations_held_runs"] == 1
    verbs.reject(held, by="tests", reason="the export was empty")
    assert told()["operations_held_runs"] == 0
    erp.book.data["passwords"]["ada"] = "another"
    ask("submit-order", order())
    run_jobs(["erp-write"])
    assert told()["operations_refused_logins"] == 1


def test_staleness_is_that_of_the_stalest_also_while_it_is_paused(agent: Agent) -> None:
    moment = now()
    Agent.objects.update(last_seen_at=moment, created_at=moment)
    SyncState.objects.create(
        agent=agent, type="sync-customers", succeeded_at=moment - timedelta(minutes=150),
        paused_until=moment + timedelta(hours=2),
    )  # fmt: skip
    found = told()["operations_sync_staleness"]
    assert 5 <= found["sync-customers"] < 5.2 and found["sync-orders"] < 0.2
    Agent.objects.update(last_seen_at=moment - timedelta(days=2))
    assert told().get("operations_sync_staleness", {}) == {}


def test_an_open_circuit(agent: Agent, erp: Erp) -> None:
    erp.is_down = True
    with freeze_clock() as clock:
        ask("submit-order", order())
        for _ in range(3):
            run_jobs(["erp-write"])
            clock.tick(61)
        assert told()["operations_circuits_open"] == 1
        erp.is_down = False
        clock.tick(301)
        run_jobs(["erp-write"])
    assert told()["operations_circuits_open"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_is_in_the_documents(name: str) -> None:
    assert f"`{name}`" in text("docs/operations.md")


def test_every_alert_is_in_the_runbook() -> None:
    rules = text("docs/monitoring/alerts.yml").partition("name: operations\n")[2]
    alerts = [line.split()[-1] for line in rules.splitlines() if "- alert:" in line]
    runbook = text("docs/operations.md").partition("## Runbook")[2]
    assert len(alerts) == 7
    assert [alert for alert in alerts if f"`{alert}`" not in runbook] == []
