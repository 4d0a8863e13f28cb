"""Outages and maintenance windows: work waits, says why, and continues by itself."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

import pytest

import jobs
from config.standins.erp.server import Erp
from jobs import flow
from jobs.testing import freeze_clock, run_jobs
from operations.clock import now
from operations.models import Agent, Operation, Phase
from tests.operations.factories import ask, fetch, order

pytestmark = pytest.mark.django_db
QUEUES = ["erp-write", "erp-read", "erp-sync"]


def work(clock: Any, seconds: int, rounds: int) -> None:
    for _ in range(rounds):
        run_jobs(QUEUES)
        clock.tick(seconds)


def of_each_family() -> list[Operation]:
    return [
        ask("submit-order", order()), ask("submit-order", order("P-2")),
        ask("sync-order-articles", {"orderId": "4711"}), ask("sync-customers", {}),
    ]  # fmt: skip


def test_an_open_circuit_costs_no_attempt_and_closing_it_releases_what_waits(
    erp: Erp, agent: Agent
) -> None:
    erp.is_down = True
    with freeze_clock() as clock:
        rows = of_each_family()
        work(clock, 1, 3)
        failures = {row.pk: jobs.get(row.pk).failures for row in rows}
        assert sum(failures.values()) == 2  # the third opened it
        logins = erp.calls["login"]
        work(clock, 60, 4)  # nothing is called before the next probe
        assert erp.calls["login"] == logins
        work(clock, 310, 3)  # the ERP is asked by probes, which fail
        assert logins < erp.calls["login"] <= logins + 4
        assert {row.pk: jobs.get(row.pk).failures for row in rows} == failures
        assert {fetch(row.pk).phase for row in rows} == {Phase.QUEUED}
        erp.is_down = False
        flow.close_breaker("erp:ada", by="tests", reason="the ERP is back")
        run_jobs(QUEUES)  # at this very moment
        assert {fetch(row.pk).phase for row in rows[:2]} == {Phase.COMPLETED}
        work(clock, 60, 3)
    assert {fetch(row.pk).phase for row in rows} == {Phase.COMPLETED}
    assert len(erp.book.data["orders"]) == 2


def test_an_outage_of_one_agent_is_none_of_another(erp: Erp, agent: Agent) -> None:
    from tests.operations.factories import agent as new_agent

    new_agent("bea")
    erp.script("ada", *["500"] * 9)
    with freeze_clock() as clock:
        ours = [ask("submit-order", order(f"P-{n}")) for n in range(3)]
        theirs = [ask("submit-order", order(f"P-{n}"), agent="bea") for n in range(3)]
        work(clock, 1, 4)
    assert {fetch(row.pk).phase for row in theirs} == {Phase.COMPLETED}
    assert {fetch(row.pk).phase for row in ours} == {Phase.QUEUED}


def test_a_maintenance_window_holds_everything_until_its_end(erp: Erp, agent: Agent) -> None:
    with freeze_clock() as clock:
        begin = now().replace(hour=2, minute=0, second=0, microsecond=0) + timedelta(days=1)
        clock.tick(begin - now() + timedelta(minutes=1))
        for queue in QUEUES:
            flow.create_blackout(
                f"queue:{queue}", time(2), time(4), by="tests", reason="the ERP's maintenance"
            )
        rows = of_each_family()
        work(clock, 600, 11)
        assert erp.calls == {} and {fetch(row.pk).phase for row in rows} == {Phase.QUEUED}
        assert "blackout" in jobs.explain(rows[0].pk).codes
        work(clock, 600, 4)
    assert {fetch(row.pk).phase for row in rows} == {Phase.COMPLETED}
    assert [jobs.get(row.pk).failures for row in rows] == [0] * 4
