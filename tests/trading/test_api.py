"""The REST API: users act for themselves, and nothing of others exists."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.test import Client

from config.standins.trading import Coinbase, Fault, new_account
from jobs.testing import run_jobs
from tests.trading.factories import linked, trade, user
from trading.models import BrokerConnection, ImportRun

pytestmark = pytest.mark.django_db(transaction=True)
BASE = "/api/v1/trading"


class Caller:
    """A logged-in user who asks like a page of this site."""

    def __init__(self, name: str) -> None:
        self.user = user(name)
        self._client = Client(enforce_csrf_checks=False)
        self._client.force_login(self.user)
        self._count = 0

    def get(self, path: str, **query: Any) -> Any:
        return self._client.get(f"{BASE}{path}", query)

    def post(self, path: str, body: Any = None, *, key: str | None = "") -> Any:
        self._count += 1
        name = f"{self.user.username}-{self._count}" if key == "" else key
        headers = {"Idempotency-Key": name} if name else {}
        return self._client.post(
            f"{BASE}{path}", json.dumps(body or {}), content_type="application/json",
            headers=headers,
        )  # fmt: skip


@pytest.fixture
def ann() -> Caller:
    return Caller("trader")


@pytest.fixture
def bob() -> Caller:
    return Caller("bob")


def test_a_trader_links_imports_reads_and_exports(venue: Coinbase, ann: Caller) -> None:
    account = venue.add(new_account(ed=True))
    account.fills = venue.market.fills()
    made = ann.post(
        "/brokers/coinbase/connect", {"keyName": account.name, "secret": account.secret}
    )
    assert made.status_code == 201, made.content
    assert account.secret not in made.content.decode()
    link = made.json()["id"]
    assert ann.post(f"/brokers/{link}/test").json() == {"rights": "may read only"}
    started = ann.post("/trades/import", {})
    assert started.status_code == 202
    assert run_jobs().succeeded == 2
    run = ann.get(f"/imports/{started.json()['jobId']}").json()
    assert (run["state"], run["percent"], run["stored"]) == ("DONE", 100, 12)
    found = ann.get("/trades", label="FOMO", side="BUY").json()["data"]
    assert [one["label"] for one in found] == ["FOMO"] * 3
    bias = ann.get(f"/trades/{found[0]['id']}/bias").json()
    assert bias["features"]["spike_pct"] > 8 and bias["insight"] and bias["source"] == "ai"
    lines = ann.get("/trades.csv", symbol="BTC-USD").content.decode().splitlines()
    assert len(lines) == 7 and lines[0].startswith("id,ts,broker,symbol")
    asked = {"tradeId": found[0]["id"], "horizonDays": 2}
    waiting = ann.post("/simulations/simple", asked)
    assert waiting.status_code == 202 and waiting.json()["status"] == "pending"
    run_jobs()
    fresh = ann.post("/simulations/simple", asked)
    assert fresh.status_code == 200 and len(fresh.json()["curves"]) == 48
    path = waiting["Location"].removeprefix(BASE)
    assert ann.get(path).json()["delta"] == fresh.json()["delta"]


def test_keys_that_may_transfer_or_trade_are_not_linked(venue: Coinbase, ann: Caller) -> None:
    account = venue.add(new_account())
    asked = {"keyName": account.name, "secret": account.secret}
    account.can_transfer = True
    assert ann.post("/brokers/coinbase/connect", asked).json()["code"] == "key-can-transfer"
    account.can_transfer, account.can_trade = False, True
    assert ann.post("/brokers/coinbase/connect", asked).json()["code"] == "key-can-trade"
    assert ann.post("/brokers/coinbase/connect", {**asked, "mayTrade": True}).status_code == 201
    again = ann.post("/brokers/coinbase/connect", {**asked, "mayTrade": True})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/trades/import", {}, 422, "no-link"),
        ("/trades/import", {"since": "2026-01-05"}, 422, "invalid"),
        ("/trades/import", {"broker": "kraken"}, 422, "no-link"),
        ("/trades/score", {}, 404, "not-found"),
        ("/simulations/simple", {"tradeId": "1", "horizonDays": 0}, 422, "invalid"),
        ("/simulations/simple", {"tradeId": "1", "horizonDays": 31}, 422, "invalid"),
        ("/simulations/simple", {"tradeId": "NaN"}, 422, "invalid"),
        ("/simulations/simple", {"tradeId": "1"}, 404, "not-found"),
        ("/rules/upsert", {"kind": "minHoldHours", "params": {"hours": 0}}, 422, "invalid"),
        ("/rules/upsert", {"kind": "minHoldHours", "params": {"hour": 2}}, 422, "invalid"),
        ("/rules/upsert", {"kind": "avoidSpikeOverPct", "params": {"pct": "9"}}, 422, "invalid"),
        ("/brokers/coinbase/connect", {"keyName": "k", "secret": "s"}, 422, "key-invalid"),
        ("/erase", {}, 422, "invalid"),
    ],
)  # fmt: skip
def test_bad_input_has_a_named_error(
    venue: Coinbase, ann: Caller, path: str, body: Any, status: int, code: str
) -> None:
    answer = ann.post(path, body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
    assert venue.asked == []


def test_a_date_in_the_future_is_refused(link: BrokerConnection, ann: Caller) -> None:
    answer = ann.post("/trades/import", {"since": "2999-01-01T00:00:00Z"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/since")


def test_imports_and_comparisons_need_an_idempotency_key(
    link: BrokerConnection, ann: Caller
) -> None:
    assert ann.post("/trades/import", {}, key=None).status_code == 428
    assert ann.post("/simulations/simple", {"tradeId": "1"}, key=None).status_code == 428
    first, again = (ann.post("/trades/import", {}, key="one") for _ in range(2))
    assert first.json() == again.json() and ImportRun.objects.count() == 1


def test_the_newest_trade_of_a_symbol_is_compared(ann: Caller, bob: Caller) -> None:
    older, newest = (trade(n, "BUY", "1", "100", n, owner=ann.user) for n in (1, 2))
    trade(3, "BUY", "1", "100", 3, owner=ann.user, is_counted=False)
    trade(4, "BUY", "1", "100", 4, owner=bob.user)
    answer = ann.post("/simulations/simple", {"symbol": "BTC-USD"})
    assert (answer.status_code, answer.json()["tradeId"]) == (202, str(newest.pk))
    assert answer.headers["Location"] == f"{BASE}/simulations/{newest.pk}/7"
    both = {"symbol": "BTC-USD", "tradeId": str(older.pk)}
    for given, status in ((both, 422), ({}, 422), ({"symbol": "ETH-USD"}, 404)):
        assert ann.post("/simulations/simple", given).status_code == status, given


def test_the_fourth_import_of_a_minute_waits(link: BrokerConnection, ann: Caller) -> None:
    answers = [ann.post("/trades/import", {}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [202, 202, 202, 429]
    assert int(answers[-1]["Retry-After"]) > 0


def test_a_refused_import_does_not_use_up_the_allowance(
    venue: Coinbase, link: BrokerConnection, ann: Caller
) -> None:
    refused = [
        ann.post("/trades/import", {"since": "2999-01-01T00:00:00Z"}),
        ann.post("/trades/import", {"broker": "kraken"}),
        ann.post("/trades/import", {"since": "soon"}),
        ann.post("/trades/import", {}, key=None),
    ]
    assert [answer.status_code for answer in refused] == [422, 422, 422, 428]
    answers = [ann.post("/trades/import", {}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [202, 202, 202, 429]


def test_links_are_paused_resumed_and_revoked(
    venue: Coinbase, link: BrokerConnection, ann: Caller
) -> None:
    path = f"/brokers/{link.pk}"
    assert ann.post(f"{path}/pause").json()["status"] == "paused"
    assert ann.post("/trades/import", {}).json()["code"] == "link-paused"
    assert ann.post(f"{path}/pause").status_code == 409
    assert ann.post(f"{path}/daily", {"daily": False}).json()["daily"] is False
    assert ann.post(f"{path}/resume").json()["status"] == "active"
    assert ann.post(f"{path}/revoke", {"reason": "moved"}).json()["status"] == "revoked"
    row = BrokerConnection.objects.get(pk=link.pk)
    assert (row.key_name, row.secret) == (None, None)
    assert ann.post(f"{path}/resume").status_code == 409


def test_a_test_tells_of_rights_that_have_changed(
    venue: Coinbase, link: BrokerConnection, ann: Caller
) -> None:
    account, path = venue.accounts[str(link.key_name)], f"/brokers/{link.pk}/test"
    assert ann.post(path).json() == {"rights": "may read only"}
    account.can_trade = True
    assert ann.post(path).json() == {"rights": "may read and trade"}
    account.can_transfer = True
    assert ann.post(path).json()["code"] == "key-can-transfer"
    account.can_transfer = account.can_view = False
    assert ann.post(path).json()["code"] == "rights-missing"


def test_without_a_name_one_of_several_links_is_not_guessed(
    link: BrokerConnection, ann: Caller
) -> None:
    BrokerConnection.objects.create(id=uuid.uuid4(), user=link.user, broker="binance")
    answer = ann.post("/trades/import", {})
    assert (answer.status_code, answer.json()["code"]) == (422, "several-links")
    assert "binance, coinbase" in answer.json()["detail"]
    unknown = ann.post("/trades/import", {"broker": "kraken"}).json()
    assert unknown["detail"] == "no account of this venue is linked"
    assert ann.post("/trades/import", {"broker": "coinbase"}).status_code == 202


def test_a_revoked_link_ends_a_running_import_before_its_next_page(
    venue: Coinbase, link: BrokerConnection, ann: Caller
) -> None:
    ann.post("/trades/import", {})
    ann.post(f"/brokers/{link.pk}/revoke")
    assert run_jobs().failed == 1
    assert (ImportRun.objects.get().error, venue.asked) == ("LINK_REVOKED", [])


def test_rules_are_set_and_name_the_trades_that_broke_them(
    venue: Coinbase, link: BrokerConnection, ann: Caller
) -> None:
    ann.post("/trades/import", {})
    run_jobs()
    ann.post("/rules/upsert", {"kind": "avoidSpikeOverPct", "params": {"pct": 10}})
    ann.post("/rules/upsert", {"kind": "minHoldHours", "params": {"hours": 8760}})
    run_jobs()
    spikes = ann.get("/trades", rule="avoidSpikeOverPct").json()["data"]
    assert {one["label"] for one in spikes} == {"FOMO"} and len(spikes) == 3
    early = ann.get("/trades", rule="minHoldHours").json()["data"]
    assert {one["side"] for one in early} == {"SELL"}
    assert {one["kind"]: one["broken"] for one in ann.get("/rules").json()} == {
        "avoidSpikeOverPct": 3, "minHoldHours": len(early),
    }  # fmt: skip


def test_cells_of_the_export_are_no_formulas(ann: Caller) -> None:
    trade(1, "BUY", "1", "100", owner=ann.user, order_id="=1+1")
    assert ",'=1+1," in ann.get("/trades.csv").content.decode()


def test_a_venue_that_is_away_is_a_gateway_error(venue: Coinbase, ann: Caller) -> None:
    account = venue.add(new_account())
    venue.plan("key_permissions", Fault(503))
    asked = {"keyName": account.name, "secret": account.secret}
    answer = ann.post("/brokers/coinbase/connect", asked)
    assert (answer.status_code, answer.json()["code"]) == (502, "venue-error")


def test_nobody_without_a_login_gets_anything(venue: Coinbase) -> None:
    linked(new_account(), "somebody")
    assert Client().get(f"{BASE}/brokers").status_code == 401


def test_a_trader_who_is_no_member_of_the_staff_logs_in_and_uses_the_api(
    venue: Coinbase, link: BrokerConnection
) -> None:
    person = link.user
    person.set_password("lighthouse")
    person.save()
    client = Client(enforce_csrf_checks=True)
    client.get("/accounts/login/")
    token = client.cookies["csrftoken"].value
    given = {"username": person.username, "password": "lighthouse", "csrfmiddlewaretoken": token}
    assert client.post("/accounts/login/", given).status_code == 302
    assert client.get(f"{BASE}/brokers").json()[0]["id"] == str(link.pk)
    headers = {"Idempotency-Key": "once"}
    path, kind = f"{BASE}/trades/import", "application/json"
    refused = client.post(path, "{}", content_type=kind, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf")
    headers["X-CSRFToken"] = client.cookies["csrftoken"].value
    started = client.post(path, "{}", content_type=kind, headers=headers)
    assert started.status_code == 202
    run_jobs()
    assert client.get(f"{BASE}/imports/{started.json()['jobId']}").json()["stored"] == 12
    assert client.get("/admin/trading/trade/").status_code == 302, "the admin is for the staff"
