"""The dashboard: what runs, who waits and for what, and only to those who may see it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.test.utils import CaptureQueriesContext

from config.standins.erp.server import Erp
from jobs.models import Audit
from jobs.principals import every_permission
from jobs.testing import freeze_clock, run_jobs
from operations import states, verbs
from operations.clock import now
from operations.errors import ErpUnreachable
from operations.models import Agent, Login, Operation, Phase, SyncState
from tests.api.conftest import Caller, fresh_counts  # noqa: F401 - a fixture
from tests.operations.factories import agent as new_agent
from tests.operations.factories import ask, order

pytestmark = pytest.mark.django_db


@pytest.fixture
def office(db: None) -> Caller:
    return Caller(name="office", is_staff=True)


def board(caller: Caller) -> Any:
    answer = caller("GET", "/operations/dashboard")
    assert answer.status_code == 200, answer.content
    return answer.data


def test_an_empty_board_has_all_its_parts(office: Caller) -> None:
    assert board(office) == {
        "queue": {
            "waiting": 0, "delayed": 0, "prioritized": 0, "active": 0, "completed": 0,
            "failed": 0, "cancelled": 0, "inDoubt": 0,
        },
        "browserPool": {"browsers": 0, "activeContexts": 0, "maxContexts": 0},
        "activeJobs": [], "agentStatus": [], "syncSchedule": [], "recentHistory": [],
    }  # fmt: skip


def test_what_runs_waits_and_is_in_the_way(office: Caller, agent: Agent, erp: Erp) -> None:
    new_agent("bob", login=Login.REFUSED)
    Agent.objects.filter(pk="ada").update(last_seen_at=now())
    verbs.pause("bob", by="tests", reason="holiday")
    running = ask("submit-order", order("P-1"))
    states.operation.move(running.pk, Phase.IN_PROGRESS, by="worker", started_at=now())
    ask("submit-order", order("P-2"))
    ask("sync-customers", {})
    failed = ask("submit-order", order(), agent="bob")
    verbs.cancel(failed.pk, by="tests", reason="changed")
    shown = board(office)
    assert shown["queue"] == {
        "waiting": 2, "delayed": 0, "prioritized": 1, "active": 1, "completed": 0, "failed": 0,
        "cancelled": 1, "inDoubt": 0,
    }  # fmt: skip
    [active] = shown["activeJobs"]
    assert (active["id"], active["entityName"]) == (str(running.pk), "Pending order P-1")
    ada, bob = shown["agentStatus"]
    assert (ada["key"], ada["running"], ada["waiting"], ada["circuit"]) == (
        "ada", "submit-order", 2, "closed",
    )  # fmt: skip
    assert (bob["login"], bob["paused"], bob["waiting"]) == ("refused", "holiday", 0)
    [ended] = shown["recentHistory"]
    assert ended["phase"] == "cancelled"


def test_the_schedule_says_how_stale_each_sync_is(office: Caller, agent: Agent, erp: Erp) -> None:
    new_agent("service-account")
    moment = now()
    Agent.objects.filter(pk="ada").update(last_seen_at=moment)
    for type, age in (("sync-customers", 15), ("sync-orders", 60)):
        SyncState.objects.create(
            agent=agent, type=type, succeeded_at=moment - timedelta(minutes=age)
        )
    SyncState.objects.create(
        agent=agent, type="sync-ddt", failures=0, paused_until=moment + timedelta(hours=1)
    )
    found = {(one["agent"], one["type"]): one for one in board(office)["syncSchedule"]}
    assert len(found) == 7
    assert found["ada", "sync-customers"]["staleness"] == 0.5
    assert found["ada", "sync-orders"]["staleness"] == 3.0
    due = {key for key, one in found.items() if one["isDue"]}
    assert due == {
        ("ada", "sync-orders"), ("ada", "sync-order-states"), ("ada", "sync-invoices"),
        ("service-account", "sync-products"), ("service-account", "sync-prices"),
    }  # fmt: skip
    assert found["ada", "sync-ddt"]["pausedUntil"]
    assert found["ada", "sync-invoices"]["succeededAt"] is None
    Agent.objects.update(last_seen_at=moment - timedelta(days=2))
    away = board(office)["syncSchedule"]
    assert not [one for one in away if one["isDue"] or one["staleness"] is not None]


def test_what_is_tried_again_is_delayed(office: Caller, agent: Agent, erp: Erp) -> None:
    erp.script("ada", "500")
    with freeze_clock():
        ask("submit-order", order())
        run_jobs(["erp-write"])
        assert board(office)["queue"]["delayed"] == 1


def test_sixty_agents_cost_no_more_statements_than_one(
    office: Caller, erp: Erp, connection: Any
) -> None:
    counts = []
    for number in range(2):
        new_agent(f"agent-{number}")
        ask("sync-customers", {}, agent=f"agent-{number}")
    board(office)
    for more in (0, 58):
        Agent.objects.bulk_create(
            Agent(key=f"more-{n}", tenant=f"agent:more-{n}", erp_login="x", password="x")
            for n in range(more)
        )
        with CaptureQueriesContext(connection) as asked:
            board(office)
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 24, counts


@pytest.fixture
def connection() -> Any:
    from django.db import connection

    return connection


def test_each_sees_only_its_own_board(agent: Agent, erp: Erp) -> None:
    new_agent("bob")
    ask("submit-order", order())
    ask("sync-customers", {})
    bob = Caller(name="bob", tenants=["agent:bob"])
    shown = board(bob)
    assert shown["queue"]["waiting"] == 0 and shown["activeJobs"] == []
    assert [one["key"] for one in shown["agentStatus"]] == ["bob"]
    assert {one["agent"] for one in shown["syncSchedule"]} == {"bob"}
    syncs = Caller(name="syncs", tenants=["agent:ada"], queues=["erp-sync"])
    shown = board(syncs)
    assert shown["queue"]["waiting"] == 1
    assert shown["agentStatus"][0]["waiting"] == 1
    writes = Caller(name="writes", tenants=["agent:ada"], queues=["erp-write"])
    assert board(writes)["syncSchedule"] == []
    assert writes("GET", "/operations/runs").data["data"] == []
    elsewhere = Caller(name="elsewhere", tenants=["agent:ada"], queues=["email"])
    shown = board(elsewhere)
    assert shown["agentStatus"] == [] and shown["queue"]["waiting"] == 0


ASKED = (
    ("GET", "/operations"), ("GET", "/operations/stats"), ("GET", "/operations/dashboard"),
    ("GET", "/operations/user/ada"), ("GET", "/operations/{id}/status"),
    ("GET", "/operations/{id}/document"), ("GET", "/operations/agents"),
    ("GET", "/operations/runs"), ("GET", "/operations/mirror/sync-orders/ada"),
)  # fmt: skip
DONE = (
    ("/operations/enqueue", {"type": "submit-order", "data": order("P-9"), "agent": "ada"}),
    ("/operations/{id}/cancel", {"reason": "mine"}),
    ("/operations/{id}/retry", {"reason": "mine"}),
    ("/operations/{id}/resolve", {"how": "recheck", "reason": "mine"}),
    ("/operations/agents/ada/pause", {"reason": "mine"}),
    ("/operations/agents/ada/stop", {"reason": "mine"}),
    ("/operations/agents/ada/test-login", {"reason": "mine"}),
    ("/operations/agents/ada/sync-now", {"type": "sync-customers", "reason": "mine"}),
    ("/operations/agents/ada/change-login",
     {"erp_login": "x", "password": "y", "reason": "mine"}),
)  # fmt: skip


@pytest.mark.parametrize(
    "who",
    [
        {"tenants": ["agent:bob"]},
        {"tenants": ["agent:ada"], "queues": ["email"]},
        {"tenants": ["agent:ada"], "permissions": ["view_job"]},
    ],
    ids=["another agent", "another queue", "no permission"],
)
def test_a_key_that_may_not_sees_and_changes_nothing(agent: Agent, erp: Erp, who: Any) -> None:
    new_agent("bob")
    row = ask("submit-order", order())
    caller = Caller(name="stranger", **{"permissions": every_permission(), **who})
    before = _state()
    for method, path in ASKED:
        answer = caller(method, path.format(id=row.pk))
        assert answer.status_code in (200, 403, 404), (path, answer.content)
        told = answer.data if isinstance(answer.data, list) else {**answer.data, "instance": ""}
        said = json.dumps(told)
        assert str(row.pk) not in said and '"ada"' not in said, path
    for path, body in DONE:
        answer = caller("POST", path.format(id=row.pk), body)
        assert answer.status_code in (403, 404), (path, answer.status_code, answer.content)
    assert _state() == before
    assert not Audit.objects.filter(actor__contains="stranger", outcome="done").exists()


def _state() -> list[Any]:
    return [
        list(Operation.objects.order_by("pk").values_list("pk", "phase", "error_code", "ended_at")),
        list(Agent.objects.order_by("pk").values_list("pk", "login", "erp_login", "is_active")),
    ]


def test_the_board_counts_browsers_and_contexts(office: Caller, agent: Agent, erp: Erp) -> None:
    new_agent("bea", client="browser")
    seen: list[Any] = []
    erp.script("ada", "slow_export")
    erp.script("bea", "slow_export")
    for key in ("ada", "bea"):
        ask("sync-customers", {}, agent=key)

    def look(*given: Any) -> Any:
        seen.append(board(office)["browserPool"])
        raise ErpUnreachable("unreachable")

    with patch("operations.clients.connect", look):
        run_jobs(["erp-sync"])
    assert {"browsers": 0, "activeContexts": 0, "maxContexts": 0} in seen
    assert {"browsers": 1, "activeContexts": 1, "maxContexts": 8} in seen
