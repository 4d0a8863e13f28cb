"""The pages of the admin: what they show, to whom, and their acts."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from config.standins.trading import Coinbase, new_account
from jobs.operate.groups import create_groups
from jobs.testing import run_jobs
from tests.trading.factories import user
from trading import services
from trading.clock import now, week_of
from trading.models import BrokerConnection, Digest, ImportRun, Rule, RuleBreak, Simulation, Trade
from trading.permissions import TRADERS

pytestmark = pytest.mark.django_db(transaction=True)
PAGES = ("brokerconnection", "importrun", "trade", "rule", "digest")


def client_of(person: User, *, superuser: bool = False) -> Client:
    person.is_staff, person.is_superuser = True, superuser
    person.save()
    found = Client()
    found.force_login(person)
    return found


def trader_of(name: str) -> User:
    """A member of the staff in the group Traders."""
    person = user(name)
    create_groups()
    person.groups.add(Group.objects.get(name=TRADERS))
    return person


@pytest.fixture
def filled(venue: Coinbase, link: BrokerConnection) -> BrokerConnection:
    services.start_import(link, by="tests")
    run_jobs()
    end = week_of(now()).date()
    services.enqueue_digest(link.user_id, end - timedelta(days=7), end)
    trade = Trade.objects.filter(user=link.user).order_by("ts")[0]
    services.simulate(link.user_id, trade.pk, 3)
    Rule.objects.create(user=link.user, kind="minHoldHours", params={"hours": 24})
    run_jobs()
    return link


def shown(client: Client, path: str) -> str:
    answer = client.get(f"/admin/trading/{path}")
    assert answer.status_code == 200, (path, answer.status_code)
    return answer.content.decode()


def test_every_page_shows_what_there_is(filled: BrokerConnection) -> None:
    client = client_of(user("boss"), superuser=True)
    rows: dict[str, Any] = {
        "brokerconnection": filled, "importrun": ImportRun.objects.get(),
        "trade": Trade.objects.order_by("ts")[1], "rule": Rule.objects.get(),
        "digest": Digest.objects.get(),
    }  # fmt: skip
    for name in PAGES:
        assert f"/admin/trading/{name}/{rows[name].pk}/change/" in shown(client, f"{name}/")
        page = shown(client, f"{name}/{rows[name].pk}/change/")
        assert str(filled.secret)[30:60] not in page
    page = shown(client, f"trade/{rows['trade'].pk}/change/")
    assert "FOMO" in page and "Above the lowest close" in page and "spike_" not in page
    assert shown(client, "trade/?label=FOMO").count("data-jd-row") == 3
    assert "There is no trade here" in shown(client, "trade/?symbol=DOGE-USD&from=nonsense")


def test_empty_pages_say_what_to_do() -> None:
    client = client_of(user("boss"), superuser=True)
    for name in PAGES:
        assert "jd-empty" in shown(client, f"{name}/")


def test_traders_see_only_their_own_rows(filled: BrokerConnection) -> None:
    mine = client_of(trader_of("trader"))
    other = client_of(trader_of("other"))
    for name in PAGES:
        assert "data-jd-row" in shown(mine, f"{name}/")
        assert "data-jd-row" not in shown(other, f"{name}/")
    page = f"/admin/trading/brokerconnection/{filled.pk}/change/"
    assert mine.get(page).status_code == 200
    assert other.get(page).status_code in (302, 404)


def test_an_import_leads_to_its_job_only_who_may_see_jobs(filled: BrokerConnection) -> None:
    row = ImportRun.objects.get()
    path, job = f"importrun/{row.pk}/change/", f"/admin/jobs/job/{row.pk}/"
    assert job in shown(client_of(user("boss"), superuser=True), path)
    assert job not in shown(client_of(trader_of("trader")), path)


def test_what_the_filters_leave_is_exported(filled: BrokerConnection) -> None:
    mine, other = client_of(trader_of("trader")), client_of(trader_of("other"))
    assert 'value="csv"' in shown(mine, "trade/")
    lines = shown(mine, "trade/?label=FOMO&format=csv").splitlines()
    assert lines[0].startswith("id,ts,broker,symbol")
    assert len(lines) == 4 and all(",FOMO," in line for line in lines[1:])
    assert len(shown(mine, "trade/?rule=minHoldHours&format=csv").splitlines()) == 1
    assert len(shown(other, "trade/?format=csv").splitlines()) == 1
    assert client_of(user("clerk")).get("/admin/trading/trade/?format=csv").status_code == 403


def test_an_account_is_linked_by_a_form(venue: Coinbase) -> None:
    account = venue.add(new_account())
    client = client_of(trader_of("trader"))
    answer = client.post(
        "/admin/trading/brokerconnection/do/link/",
        {"key_name": account.name, "secret": account.secret, "confirmed": "1"}, follow=True,
    )  # fmt: skip
    assert answer.status_code == 200
    assert BrokerConnection.objects.get().status == "active", answer.content.decode()[:3000]


def test_a_key_that_is_refused_is_not_shown_again(venue: Coinbase) -> None:
    account = venue.add(new_account())
    account.can_trade = True
    client = client_of(trader_of("linking"))
    for secret, words in (
        (account.secret, "The key may trade"),
        ("x" * 43, "cannot be read"),
    ):
        given = {"confirmed": "1", "key_name": account.name, "secret": secret}
        answer = client.post("/admin/trading/brokerconnection/do/link/", given)
        shown = answer.content.decode()
        assert answer.status_code == 422 and words in shown and account.name in shown
        assert max(secret.split(), key=len) not in shown and "secret: " not in shown
    assert not BrokerConnection.objects.exists()


def test_acts_on_a_link_say_what_came_of_them_and_need_no_reason(
    venue: Coinbase, link: BrokerConnection
) -> None:
    client, path = client_of(trader_of("trader")), f"brokerconnection/{link.pk}"

    def act(name: str, **given: str) -> str:
        page = f"/admin/trading/{path}/do/{name}/"
        answer = client.post(page, {"confirmed": "1", "reason": "", **given}, follow=True)
        return answer.content.decode()

    assert "It may read only" in act("test")
    venue.accounts[str(link.key_name)].can_trade = True
    assert "It may read and trade" in act("test")
    page = act("import")
    assert "The import has started" in page and "Import of Coinbase" in page
    assert "It is active." in shown(client, f"{path}/change/"), "it cannot be resumed"
    act("pause")
    assert "It is paused." in shown(client, f"{path}/do/import/")
    act("resume")
    act("set-daily")
    link.refresh_from_db()
    assert (link.status, link.is_daily) == ("active", False)
    run = ImportRun.objects.get()
    assert f"/admin/trading/importrun/{run.pk}/change/" in shown(client, f"{path}/change/")
    act("revoke")
    link.refresh_from_db()
    assert (link.status, link.secret) == ("revoked", None)


def test_a_trade_is_compared_by_a_form(filled: BrokerConnection) -> None:
    client, row = client_of(trader_of("trader")), Trade.objects.order_by("ts")[1]
    given = {"confirmed": "1", "reason": "", "days": "5"}
    page = f"/admin/trading/trade/{row.pk}"
    assert "is computed" in client.post(f"{page}/do/simulate/", given, follow=True).content.decode()
    assert "being computed" in shown(client, f"trade/{row.pk}/change/")
    run_jobs()
    page_of_trade = shown(client, f"trade/{row.pk}/change/")
    assert "Compared with holding for 5 days, in USD" in page_of_trade
    curve = Simulation.objects.get(horizon_days=5).curves
    drawn = re.findall(r'polyline points="([^"]+)"', page_of_trade)
    assert [len(points.split()) for points in drawn] == [len(curve)] * 2
    last = f"{float(curve[-1][1]):.2f}, Actual: {float(curve[-1][2]):.2f}"
    assert f'aria-label="Hold: {last}"' in page_of_trade
    assert "is current" in client.post(f"{page}/do/simulate/", given, follow=True).content.decode()


def test_a_rule_is_set_by_a_form(filled: BrokerConnection) -> None:
    client = client_of(trader_of("trader"))
    assert 'name="reason"' not in shown(client, "rule/do/set/")
    given = {"kind": "minHoldHours", "hours": "5", "active": "on", "confirmed": "1"}
    assert client.post("/admin/trading/rule/do/set/", given).status_code == 302
    assert Rule.objects.get(kind="minHoldHours").params == {"hours": 5}
    given = {"kind": "avoidSpikeOverPct", "pct": "8", "active": "on", "confirmed": "1"}
    client.post("/admin/trading/rule/do/set/", given)
    run_jobs()
    page = shown(client, f"rule/{Rule.objects.get(kind='avoidSpikeOverPct').pk}/change/")
    assert "from 8 % above the lowest close of 24 hours" in page
    broken = RuleBreak.objects.filter(kind="avoidSpikeOverPct").values_list("trade_id", flat=True)
    assert broken and all(f'href="/admin/trading/trade/{pk}/change/"' in page for pk in broken)


def test_the_staff_without_permission_sees_nothing(filled: BrokerConnection) -> None:
    client = client_of(user("clerk"))
    for name in PAGES:
        assert client.get(f"/admin/trading/{name}/").status_code == 403
