"""Binance: linking, reading market by market, limits of the address, and what it refuses."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from config.standins.trading import (
    Binance,
    BinanceAccount,
    Coinbase,
    Fault,
    binance_fill,
    binance_fills,
    new_account,
    new_binance_account,
)
from config.standins.trading.market import PLAN
from jobs.testing import freeze_clock, run_jobs
from tests.trading.factories import linked, user
from tests.trading.test_api import Caller
from trading import ledger, links, services, verbs
from trading.clients import binance as client
from trading.clients.venue import Account
from trading.errors import Refused, VenueError
from trading.fills import read_binance
from trading.models import BiasTag, BrokerConnection, ImportRun, Trade

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def account(binance: Binance) -> BinanceAccount:
    made = binance.add(new_binance_account())
    made.fills = binance_fills(binance.market)
    return made


@pytest.fixture
def held(account: BinanceAccount) -> BrokerConnection:
    """A link that reads both markets."""
    checked = links.check_key(
        "binance", account.key, account.secret, may_trade=False, symbols=["BTCUSDT", "eth-usdt"]
    )
    return links.store(user("binance").pk, checked, by="tests")


def imported(link: BrokerConnection, since: datetime | None = None) -> ImportRun:
    job = services.start_import(BrokerConnection.objects.get(pk=link.pk), since, by="tests")
    run_jobs()
    return ImportRun.objects.get(pk=job)


def ago(**span: float) -> int:
    return int((datetime.now(UTC) - timedelta(**span)).timestamp() * 1000)


# ---- linking


def test_a_trader_links_chooses_markets_and_imports(
    binance: Binance, account: BinanceAccount
) -> None:
    ann = Caller("trader")
    made = ann.post("/brokers/binance/connect", {"keyName": account.key, "secret": account.secret})
    assert made.status_code == 201, made.content
    assert account.secret not in made.content.decode()
    assert made.json()["symbols"] == ["BTC-USDT"], "what it holds, against USDT"
    path = f"/brokers/{made.json()['id']}/symbols"
    account.balances["ETH"] = "2"
    assert ann.get(path).json() == {"symbols": ["BTC-USDT"], "offered": ["BTC-USDT", "ETH-USDT"]}
    wrong = ann.post(path, {"symbols": ["BTC-USDT", "DOGE-USDT"]})
    assert wrong.status_code == 422 and "DOGEUSDT" in wrong.json()["detail"]
    chosen = ann.post(path, {"symbols": ["ETHUSDT", "BTC-USDT"]})
    assert chosen.json()["symbols"] == ["BTC-USDT", "ETH-USDT"]
    assert ann.post(f"/brokers/{made.json()['id']}/test").json() == {"rights": "may read only"}
    ann.post("/trades/import", {"broker": "binance"})
    run_jobs()
    found = ann.get("/trades", label="FOMO").json()["data"]
    assert [one["symbol"].split("-")[1] for one in found] == ["USDT"] * 3
    assert {one["broker"] for one in found} == {"binance"}
    tags = BiasTag.objects.filter(is_current=True).order_by("trade__ts")
    assert tuple(tags.values_list("label", flat=True)) == PLAN


@pytest.mark.parametrize(
    ("right", "code"), [("can_withdraw", "KEY_CAN_TRANSFER"), ("can_move", "KEY_CAN_TRANSFER"),
                        ("can_trade", "KEY_CAN_TRADE")],
)  # fmt: skip
def test_a_key_that_may_more_is_refused(account: BinanceAccount, right: str, code: str) -> None:
    setattr(account, right, True)
    with pytest.raises(Refused) as caught:
        links.check_key("binance", account.key, account.secret, may_trade=False)
    assert caught.value.code == code
    if right == "can_trade":
        checked = links.check_key("binance", account.key, account.secret, may_trade=True)
        assert checked.rights.can_trade


def test_a_key_without_the_right_to_read_or_with_another_secret_is_refused(
    account: BinanceAccount,
) -> None:
    with pytest.raises(Refused) as caught:
        links.check_key("binance", account.key, "another", may_trade=False)
    assert caught.value.code == "KEY_REFUSED"
    account.can_read = False
    with pytest.raises(Refused) as caught:
        links.check_key("binance", account.key, account.secret, may_trade=False)
    assert caught.value.code == "RIGHTS_MISSING"


def test_without_its_flag_nothing_of_it_is_offered(
    binance: Binance, held: BrokerConnection, account: BinanceAccount, settings: Any
) -> None:
    settings.TRADING = {**settings.TRADING, "FEATURE_BINANCE": False}
    ann = Caller("other")
    body = {"keyName": account.key, "secret": account.secret}
    assert ann.post("/brokers/binance/connect", body).status_code == 404
    with pytest.raises(Refused, match="switched on"):
        services.start_import(held, by="tests")
    assert not any(what == "myTrades" for _, what, _ in binance.asked)


def test_a_link_of_coinbase_has_no_markets_to_choose(venue: Coinbase) -> None:
    link = linked(venue.add(new_account()))
    with pytest.raises(Refused, match="Binance only"):
        verbs.set_symbols(link.pk, ["BTC-USDT"], by="tests")


# ---- reading


def test_an_import_reads_every_market(binance: Binance, held: BrokerConnection) -> None:
    row = imported(held)
    assert (row.state, row.fetched, row.stored, row.pages) == ("DONE", 12, 12, 2)
    first = Trade.objects.order_by("ts")[0]
    assert (first.ext_id, first.base, first.quote) == ("BTCUSDT:1", "BTC", "USDT")
    assert first.fee_asset == "BTC" and ledger.received(first) == first.qty - first.fee
    again = imported(held)
    assert (again.stored, again.conflicts) == (0, 0) and Trade.objects.count() == 12


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_any_number_of_fills_in_any_window_is_read_once(
    binance: Binance, account: BinanceAccount, held: BrokerConnection,
    monkeypatch: pytest.MonkeyPatch, newest_first: bool, seed: int,
) -> None:  # fmt: skip
    """Whichever fills the venue leaves out of a full window; ``since`` itself is included."""
    monkeypatch.setattr(client, "PAGE", 4)
    binance.newest_first = newest_first
    draw = random.Random(seed)
    since = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(6)
    begin = int(since.timestamp() * 1000)
    times = sorted(begin + draw.randrange(4 * client.DAY) for _ in range(40))
    times[10:20] = [times[10]] * 10  # more than a page in one millisecond
    times = sorted([begin - 1, begin, *times])
    account.fills = [
        binance_fill(n * draw.choice([1, 3]) + 10 * n, "ETHUSDT", True, "1", "3000", at)
        for n, at in enumerate(times)
    ]
    row = imported(held, since)
    assert row.state == "DONE", row.error
    wanted = {f"ETHUSDT:{one['id']}" for one in account.fills if one["time"] >= begin}
    assert set(Trade.objects.values_list("ext_id", flat=True)) == wanted
    assert row.conflicts == 0


def test_a_market_that_is_gone_hinders_no_other(binance: Binance, held: BrokerConnection) -> None:
    held.symbols = ["AAA-USDT", "BTC-USDT", "ZZZ-USDT"]
    held.save()
    row = imported(held)
    assert (row.state, row.stored) == ("DONE", 6)


def test_markets_that_change_during_an_import_are_no_reason_to_fail(
    binance: Binance, held: BrokerConnection
) -> None:
    binance.plan("myTrades", Fault(502))
    held_job = services.start_import(held, by="tests")
    run_jobs()
    ImportRun.objects.filter(pk=held_job).update(cursor='{"market": "CCC-USDT", "id": 7}')
    with freeze_clock() as clock:
        clock.tick(120)
        run_jobs()
    row = ImportRun.objects.get(pk=held_job)
    assert (row.state, row.fetched) == ("DONE", 6), "ETH-USDT comes after it"


def test_without_a_market_an_import_says_so(held: BrokerConnection) -> None:
    held.symbols = []
    held.save()
    row = imported(held)
    assert (row.state, row.error) == ("FAILED", "NO_SYMBOLS")


@pytest.mark.parametrize(
    "change",
    [
        {"price": "NaN"}, {"price": 1.5}, {"qty": "0"}, {"id": "7"}, {"id": -1}, {"id": True},
        {"time": None}, {"isBuyer": "yes"}, {"symbol": "ETHUSDT"}, {"commissionAsset": "b n b"},
        {"commission": None}, {"time": 10**30},
    ],
)  # fmt: skip
def test_a_row_with_an_impossible_value_is_refused(change: dict[str, Any]) -> None:
    good = binance_fill(1, "BTCUSDT", True, "1", "60000", ago(hours=1))
    assert read_binance(good, "BTC-USDT").ext_id == "BTCUSDT:1"
    with pytest.raises(VenueError, match="BAD_ROW"):
        read_binance({**good, **change}, "BTC-USDT")


# ---- refusals and limits


def test_a_clock_that_differs_is_read_once(binance: Binance, held: BrokerConnection) -> None:
    binance.skew = 3_600_000
    assert imported(held).state == "DONE"
    assert binance.count("time") == 2, "once for each page"


def test_a_refused_key_pauses_the_link_and_a_firewall_does_not(
    binance: Binance, account: BinanceAccount, held: BrokerConnection
) -> None:
    binance.plan("myTrades", Fault(403), Fault(502))
    row = imported(held)
    assert (row.state, row.error) == ("RETRY", "VENUE_ERROR")
    held.refresh_from_db()
    assert held.status == "active"
    binance.accounts.clear()
    with freeze_clock() as clock:
        for _ in range(2):
            clock.tick(300)
            run_jobs()
    held.refresh_from_db()
    assert (held.status, held.error) == ("paused", "LINK_AGAIN")
    assert ImportRun.objects.get(pk=row.pk).state == "FAILED"


def test_a_ban_stops_all_of_binance_and_nobody_else(
    binance: Binance, venue: Coinbase, account: BinanceAccount, held: BrokerConnection
) -> None:
    """Limits are those of the address: every user of it waits, as long as is asked."""
    binance.plan("myTrades", Fault(418, {"Retry-After": "600"}))
    other = links.store(
        user("other").pk,
        links.check_key("binance", account.key, account.secret, may_trade=False,
                        symbols=["BTC-USDT"]),
        by="tests",
    )  # fmt: skip
    of_coinbase = linked(venue.add(new_account()), "third")
    with freeze_clock() as clock:
        waiting = [services.start_import(one, by="tests") for one in (held, other)]
        run_jobs()
        asked = binance.count("myTrades")
        assert asked == 1
        services.start_import(of_coinbase, by="tests")
        run_jobs()
        assert ImportRun.objects.get(connection=of_coinbase).state == "DONE"
        clock.tick(590)
        run_jobs()
        assert binance.count("myTrades") == asked, "nothing is asked before"
        clock.tick(60)
        run_jobs()
    rows = ImportRun.objects.filter(pk__in=waiting)
    assert set(rows.values_list("state", flat=True)) == {"DONE"}


def test_the_used_weight_is_heeded_before_the_venue_refuses(
    binance: Binance, held: BrokerConnection
) -> None:
    binance.used = 5_900
    with freeze_clock() as clock:
        job = services.start_import(held, by="tests")
        run_jobs()
        assert binance.count("myTrades") == 1
        assert ImportRun.objects.get(pk=job).error == "VENUE_LIMITED"
        clock.tick(70)
        binance.used = 0
        run_jobs()
    row = ImportRun.objects.get(pk=job)
    assert (row.state, row.stored) == ("DONE", 12)


def test_the_stand_in_refuses_what_the_venue_refuses(
    binance: Binance, account: BinanceAccount
) -> None:
    """Other bytes than those signed, both ways of paging, windows of more than a day."""
    of_account = Account(account.key, account.secret)

    def trades(**asked: Any) -> Any:
        return client._signed("/api/v3/myTrades", {"symbol": "BTCUSDT", **asked}, of_account)

    assert trades()
    now = int(time.time() * 1000)
    for wrong in (
        {"fromId": "1", "startTime": "1"}, {"startTime": "0", "endTime": str(client.DAY + 1)},
        {"limit": "1001"},
    ):  # fmt: skip
        with pytest.raises(VenueError, match="VENUE_REFUSED"):
            trades(**wrong)
    assert trades(startTime=str(now - client.DAY), endTime=str(now)) is not None
    signed = f"symbol=BTCUSDT&timestamp={now}&signature={'0' * 64}"
    with pytest.raises(VenueError, match="LINK_AGAIN"):
        client._get("/api/v3/myTrades", signed, of_account)
