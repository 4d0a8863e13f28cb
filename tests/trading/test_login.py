"""Logging in at Coinbase: there and back, whose code it is, and tokens that are refreshed once."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connections
from django.test import Client

from config.standins.trading import Account, Binance, Coinbase, Fault, new_binance_account
from jobs import http
from jobs.testing import freeze_clock, run_jobs
from tests.trading.factories import user
from tests.trading.test_api import Caller
from trading import logins, services, venues, verbs
from trading.clock import now
from trading.models import BrokerConnection, ImportRun

pytestmark = pytest.mark.django_db(transaction=True)
CALLBACK = "/trading/coinbase/callback"


def begun(caller: Caller) -> str:
    answer = caller.post("/brokers/coinbase/connect/start", {})
    assert answer.status_code == 200, answer.content
    return str(answer.json()["url"])


def agreed(url: str) -> str:
    """Follow the user to the venue; return where it leads back to."""
    answer = http.get(url)
    assert answer.status_code == 302
    return str(answer.headers["Location"])


def back(caller: Caller, location: str) -> Any:
    parts = urlsplit(location)
    assert parts.path == CALLBACK
    return caller._client.get(f"{parts.path}?{parts.query}")


def linked(caller: Caller) -> BrokerConnection:
    answer = back(caller, agreed(begun(caller)))
    assert answer.status_code == 200, answer.content
    return BrokerConnection.objects.get(user=caller.user)


@pytest.fixture
def ann() -> Caller:
    return Caller("trader")


def test_a_trader_logs_in_and_imports(venue: Coinbase, login: Account, ann: Caller) -> None:
    url = begun(ann)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert asked["code_challenge_method"] == "S256" and len(asked["state"]) > 30
    assert asked["scope"] == "wallet:user:read wallet:transactions:read offline_access"
    answer = back(ann, agreed(url))
    assert answer.status_code == 200 and "The account is linked." in answer.content.decode()
    [shown] = ann.get("/brokers").json()
    assert (shown["login"], shown["mayTrade"], shown["status"]) == (True, False, "active")
    assert ann.post(f"/brokers/{shown['id']}/test").json() == {"rights": "may read only"}
    ann.post("/trades/import", {})
    run_jobs()
    row = ImportRun.objects.get()
    assert (row.state, row.stored) == ("DONE", 12)


def test_what_comes_back_must_be_what_was_begun(
    venue: Coinbase, login: Account, ann: Caller
) -> None:
    """Another browser, a changed state, and a code that was used."""
    location = agreed(begun(ann))
    stranger = Caller("bob")
    assert back(stranger, location).status_code == 400
    assert Client().get(CALLBACK).status_code == 302, "who is not logged in is asked to"
    assert back(ann, location.replace("state=", "state=x")).status_code == 400
    begun(stranger)
    assert back(stranger, location).status_code == 400
    assert not BrokerConnection.objects.exists()
    assert back(ann, location).status_code == 200, "what others have tried does not hinder"
    assert back(ann, location).status_code == 400
    assert BrokerConnection.objects.count() == 1


def test_a_login_that_is_late_or_cancelled_links_nothing(
    venue: Coinbase, login: Account, ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = agreed(begun(ann))
    with monkeypatch.context() as later:
        later.setattr(logins, "LIFETIME", -1)
        late = agreed(begun(ann))
    answer = back(ann, late)
    assert answer.status_code == 400 and "begin again" in answer.content.decode()
    assert back(ann, location).status_code == 400, "the newest beginning is the only one"
    venue.logins.account = ""
    cancelled = agreed(begun(ann))
    assert "error=access_denied" in cancelled
    assert back(ann, cancelled).status_code == 400
    assert not BrokerConnection.objects.exists()


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("wallet:user:read,offline_access", "lacks the right"),
        ("wallet:transactions:read,wallet:transactions:send,offline_access", "may withdraw"),
        ("wallet:transactions:read,wallet:buys:create,offline_access", "may trade"),
        ("wallet:transactions:read", "cannot be read"),
    ],
)
def test_a_login_with_other_rights_is_refused(
    venue: Coinbase, login: Account, ann: Caller, scope: str, words: str
) -> None:
    venue.logins.granted = scope
    answer = back(ann, agreed(begun(ann)))
    assert answer.status_code == 400 and words in answer.content.decode()
    assert not BrokerConnection.objects.exists()


def test_an_account_that_is_linked_is_not_linked_twice(
    venue: Coinbase, login: Account, ann: Caller
) -> None:
    linked(ann)
    answer = ann.post("/brokers/coinbase/connect/start", {})
    assert answer.status_code == 409 and "revoke it first" in answer.json()["detail"]


def test_without_a_client_of_the_project_nobody_logs_in(venue: Coinbase, ann: Caller) -> None:
    answer = ann.post("/brokers/coinbase/connect/start", {})
    assert answer.status_code == 409 and "not set up" in answer.json()["detail"]


# ---- tokens


def test_many_processes_refresh_an_expired_token_once(
    venue: Coinbase, login: Account, ann: Caller
) -> None:
    link = linked(ann)
    BrokerConnection.objects.update(expires_at=now() - timedelta(seconds=1))
    stale = [BrokerConnection.objects.get(pk=link.pk) for _ in range(6)]
    found: list[str] = []

    def use(row: BrokerConnection) -> None:
        found.append(venues.account_of(row).token)
        connections.close_all()

    threads = [threading.Thread(target=use, args=[row]) for row in stale]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert venue.logins.refreshed == 1 and len(set(found)) == 1 and len(found) == 6


def test_a_token_that_ends_early_is_refreshed_in_the_middle_of_an_import(
    venue: Coinbase, login: Account, ann: Caller
) -> None:
    link = linked(ann)
    venue.logins.expire()
    services.start_import(link, by="tests")
    run_jobs()
    assert ImportRun.objects.get().state == "DONE" and venue.logins.refreshed == 1
    refreshed = BrokerConnection.objects.get()
    assert refreshed.refresh_token != link.refresh_token, "it is good once"
    venue.logins.expire()
    services.start_import(refreshed, by="tests")
    run_jobs()
    assert set(ImportRun.objects.values_list("state", flat=True)) == {"DONE"}


def test_access_that_the_user_took_back_pauses_the_link(
    venue: Coinbase, login: Account, ann: Caller
) -> None:
    link = linked(ann)
    venue.logins.revoke(login.name)
    services.start_import(link, by="tests")
    run_jobs()
    link.refresh_from_db()
    assert (link.status, link.error) == ("paused", "LINK_AGAIN")
    assert ImportRun.objects.get().error == "LINK_AGAIN"


@pytest.mark.parametrize("fault", [Fault(503), Fault(0), Fault(429, {"Retry-After": "5"})])
def test_a_login_service_that_is_away_pauses_nothing(
    venue: Coinbase, login: Account, ann: Caller, fault: Fault
) -> None:
    link = linked(ann)
    BrokerConnection.objects.update(expires_at=now())
    venue.plan("token", fault)
    services.start_import(link, by="tests")
    run_jobs()
    link.refresh_from_db()
    assert link.status == "active" and ImportRun.objects.get().state == "RETRY"
    with freeze_clock() as clock:
        clock.tick(60)
        run_jobs()
    assert ImportRun.objects.get().state == "DONE"


def test_revoking_erases_the_tokens(venue: Coinbase, login: Account, ann: Caller) -> None:
    link = linked(ann)
    assert link.access_token and link.refresh_token
    verbs.revoke(link.pk, by="tests", reason="moved")
    link.refresh_from_db()
    assert (link.access_token, link.refresh_token) == (None, None)
    assert ann.get("/brokers").json()[0]["status"] == "revoked"


def test_the_admin_leads_to_coinbase_by_a_link(
    venue: Coinbase, login: Account, binance: Binance
) -> None:
    """Browsers block a form that redirects to another host."""
    boss = user("boss")
    boss.is_staff = boss.is_superuser = True
    boss.save()
    client = Client()
    client.force_login(boss)
    page = client.post("/admin/trading/brokerconnection/do/login/")
    assert page.status_code == 200
    [url] = re.findall(r'href="(http[^"]*/oauth2/auth[^"]*)"', page.content.decode())
    parts = urlsplit(agreed(url.replace("&amp;", "&")))
    answer = client.get(f"{parts.path}?{parts.query}")
    made = BrokerConnection.objects.get(user=boss)
    assert answer.headers["Location"] == f"/admin/trading/brokerconnection/{made.pk}/change/"
    account = binance.add(new_binance_account())
    form = {"key_name": account.key, "secret": account.secret, "symbols": ""}
    answer = client.post("/admin/trading/brokerconnection/do/link-binance/", form)
    link = BrokerConnection.objects.get(user=boss, broker="binance")
    assert answer.status_code == 302 and link.symbols == ["BTC-USDT"]
    path = f"/admin/trading/brokerconnection/{link.pk}/do/set-symbols/"
    assert "BTC-USDT" in client.get(path).content.decode()
    answer = client.post(path, {"symbols": "ETHUSDT, BTC-USDT", "reason": ""})
    link.refresh_from_db()
    assert answer.status_code == 302 and link.symbols == ["BTC-USDT", "ETH-USDT"]
    assert "DOGEUSDT" in client.post(path, {"symbols": "DOGE-USDT"}).content.decode()
