"""Another user sees and changes nothing: by path, filter, job, event, page or act of the admin."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from config.standins.trading import Coinbase
from jobs import Job
from jobs.operate import apikeys
from jobs.testing import emitted, run_jobs
from tests.api.conftest import Caller as ApiCaller
from tests.trading.factories import user
from tests.trading.test_admin import PAGES, client_of, trader_of
from trading import services
from trading.clock import now, week_of
from trading.models import (
    BiasTag,
    BrokerConnection,
    Digest,
    ImportRun,
    Rule,
    ScoreRun,
    Simulation,
    Trade,
)
from trading.permissions import USE

pytestmark = pytest.mark.django_db(transaction=True)
BASE = "/api/v1/trading"
API = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())["paths"]
MODELS: tuple[Any, ...] = (
    BrokerConnection, ImportRun, ScoreRun, Trade, BiasTag, Simulation, Digest, Rule,
)  # fmt: skip
ROWS: dict[str, Any] = {
    "brokerconnection": BrokerConnection, "importrun": ImportRun, "trade": Trade, "rule": Rule,
    "digest": Digest,
}  # fmt: skip
ACT = re.compile(r'/do/([a-z_-]+)/[?"]')
BODIES: dict[str, dict[str, Any]] = {
    "daily": {"daily": False}, "symbols": {"symbols": ["BTC-USDT"]},
}  # fmt: skip


@pytest.fixture
def ann(venue: Coinbase, link: BrokerConnection) -> BrokerConnection:
    """A trader with a row of everything."""
    services.start_import(link, by="tests")
    run_jobs()
    end = week_of(now()).date()
    services.enqueue_digest(link.user_id, end - timedelta(days=7), end)
    services.simulate(link.user_id, Trade.objects.order_by("ts")[0].pk, 7)
    Rule.objects.create(user=link.user, kind="minHoldHours", params={"hours": 24})
    run_jobs()
    assert emitted("coach.reflect")
    assert all(model.objects.filter(user=link.user).exists() for model in MODELS)
    return link


def everything_of(link: BrokerConnection) -> list[Any]:
    """Every value of the trader's rows, as text, and the jobs."""
    found = [
        {name: str(value) for name, value in row.items()}
        for model in MODELS
        for row in model.objects.filter(user=link.user).order_by("pk").values()
    ]
    of_jobs = Job.objects.filter(tenant=f"user:{link.user_id}").order_by("id")
    return [*found, *of_jobs.values_list("id", "state", "attempt")]


def program_of(name: str, *permissions: str) -> Client:
    """A program with an API key of that user alone."""
    person = user(name)
    made = apikeys.create(
        f"of {name}",
        [USE, *permissions],
        tenants=[f"user:{person.pk}"],
        by="tests",
        reason="a test",
    )
    return Client(headers={"Authorization": f"Bearer {made.text}"})


def visitor(name: str) -> Client:
    client = Client()
    client.force_login(user(name))
    return client


@pytest.mark.parametrize("make", [visitor, program_of], ids=["login", "key"])
def test_no_path_leads_to_what_belongs_to_others(ann: BrokerConnection, make: Any) -> None:
    own, other, before = make("trader"), make("other"), everything_of(ann)
    trade = Trade.objects.filter(user=ann.user).order_by("ts")[0]
    known = {"link_id": ann.pk, "trade_id": trade.pk, "days": 7}
    count = 0
    for path, operations in API.items():
        if not path.startswith(BASE) or "{" not in path:
            continue
        known["job_id"] = (ScoreRun if "/scores/" in path else ImportRun).objects.get().pk
        address = path.format(**known)
        for method in operations:
            body = json.dumps(BODIES.get(path.rsplit("/", 1)[-1], {}))
            headers = {"Idempotency-Key": f"other-{count}"}
            answer = getattr(other, method)(
                address, *([body] if method == "post" else []), headers=headers,
                **({"content_type": "application/json"} if method == "post" else {}),
            )  # fmt: skip
            assert answer.status_code == 404, (method, address, answer.content)
            count += 1
        if "get" in operations:
            assert own.get(address).status_code == 200, address
    assert count >= 10
    for name in ("brokers", "imports", "rules", "digests/weekly"):
        assert own.get(f"{BASE}/{name}").json() and other.get(f"{BASE}/{name}").json() == [], name
    for query in ({}, {"symbol": trade.symbol}, {"label": "FOMO"}, {"rule": "minHoldHours"}):
        assert other.get(f"{BASE}/trades", query).json()["data"] == [], query
    assert other.get(f"{BASE}/digests/weekly/latest").status_code == 404
    assert len(other.get(f"{BASE}/trades.csv").content.decode().splitlines()) == 1
    asked = {"tradeId": str(trade.pk), "horizonDays": 3}
    answer = other.post(
        f"{BASE}/simulations/simple", json.dumps(asked), content_type="application/json",
        headers={"Idempotency-Key": "other"},
    )  # fmt: skip
    assert answer.status_code == 404
    reason = json.dumps({"reason": "mine"})
    erased = other.post(f"{BASE}/erase", reason, content_type="application/json")
    assert erased.status_code == 200 and not any(erased.json()["deleted"].values())
    assert other.get("/internal/events").json()["data"] == []
    assert everything_of(ann) == before


def test_a_key_of_another_user_finds_no_job_and_acts_on_none(ann: BrokerConnection) -> None:
    before, job = everything_of(ann), ImportRun.objects.get().pk
    rights = ("view_job", "view_payload", "cancel_job", "retry_job", "replay_job", "view_outbox")
    own, other = program_of("trader", *rights), program_of("other", *rights)
    path = f"/api/v1/jobs/{job}"
    assert (own.get(path).status_code, other.get(path).status_code) == (200, 404)
    for query in ("", "kind:import.trades", f"tenant:user:{ann.user_id}"):
        listed = [
            client.get("/api/v1/jobs", {"query": query}).json()["data"] for client in (own, other)
        ]
        assert listed[0] and listed[1] == [], query
    for act in ("cancel", "retry", "replay"):
        answer = other.post(
            f"{path}/{act}", json.dumps({"reason": "mine"}), content_type="application/json"
        )
        assert answer.status_code == 404, (act, answer.content)
    events = [client.get("/api/v1/events").json()["data"] for client in (own, other)]
    assert events[0] and events[1] == []
    assert everything_of(ann) == before


def test_no_act_of_the_admin_reaches_the_rows_of_others(ann: BrokerConnection) -> None:
    mine, other = client_of(trader_of("trader")), client_of(trader_of("other"))
    before = everything_of(ann)
    given = {
        "confirmed": "1", "reason": "mine", "days": "3", "daily": "", "kind": "minHoldHours",
        "hours": "1", "active": "on",
    }  # fmt: skip
    tried = set()
    for name in PAGES:
        for row in ROWS[name].objects.filter(user=ann.user)[:1]:
            page = f"/admin/trading/{name}/{row.pk}"
            shown = mine.get(f"{page}/change/")
            assert shown.status_code == 200, page
            assert other.get(f"{page}/change/").status_code in (302, 404), page
            for act in sorted(set(ACT.findall(shown.content.decode()))):
                tried.add(act)
                many = f"/admin/trading/{name}/many/?action={act}&_selected={row.pk}"
                alone = [other.get(f"{page}/do/{act}/"), other.post(f"{page}/do/{act}/", given)]
                assert {answer.status_code for answer in alone} == {404}, (name, act)
                assert other.post(many, given).status_code in (404, 409), (name, act)
                assert everything_of(ann) == before, (name, act)
    assert {"import", "pause", "revoke", "set-daily", "test", "simulate"} <= tried
    for path in ("trade/do/erase/", "trade/do/rescore/", "rule/do/set/"):
        other.post(f"/admin/trading/{path}", given)
    assert everything_of(ann) == before
    assert Rule.objects.filter(user=user("other")).exists(), "the form has set one's own"


def test_staff_of_another_user_finds_no_job_in_the_admin(ann: BrokerConnection) -> None:
    person = trader_of("other")
    person.user_permissions.set(Permission.objects.filter(content_type__app_label="jobs"))
    client, job = client_of(person), ImportRun.objects.get().pk
    assert client.get(f"/admin/jobs/job/{job}/change/").status_code in (302, 404)
    listed = client.get("/admin/jobs/job/")
    assert listed.status_code == 200 and str(job) not in listed.content.decode()


@pytest.mark.parametrize("key", ["trading:import:1", "trading:score:1", "trading:snapshots:1"])
def test_no_job_of_another_kind_holds_up_a_trader(key: str) -> None:
    root = ApiCaller(name="root", is_staff=True)
    body = {"kind": "example.greet", "payload": {"name": "x"}, "exclusive": key}
    answer = root("POST", "/jobs", body)
    assert (answer.status_code, answer.data["code"]) == (422, "invalid-option")
