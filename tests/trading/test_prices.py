"""Prices of the vendor where a venue has none: limits, errors, stale and missing data."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache

from config.standins.trading import Coinbase, Fault, Vendor
from config.standins.trading.market import PLAN, fill
from config.standins.trading.vendor import RATE_LIMITED
from jobs.flow import MeterFull
from jobs.testing import freeze_clock, run_jobs
from tests.trading.test_api import Caller
from tests.trading.test_flow import imported
from trading import checks, market, metrics, services
from trading.clock import now
from trading.errors import VenueError
from trading.models import BiasTag, BrokerConnection, ScoreRun, Simulation, Trade

pytestmark = pytest.mark.django_db(transaction=True)
AWAY = [Fault(503)] * 40


def span(hours: int = 30) -> tuple[str, str, Any, Any]:
    moment = now()
    return "coinbase", "BTC-USD", moment - timedelta(hours=hours), moment


def test_the_vendor_is_asked_only_where_the_venue_has_nothing(
    venue: Coinbase, vendor: Vendor
) -> None:
    asked = span()
    of_venue = market.prices(*asked)
    assert of_venue.source == "coinbase" and vendor.asked == []
    cache.clear()
    venue.plan("candles", *AWAY)
    found = market.prices(*asked)
    assert found.source == "cryptocompare"
    assert [row[:5] for row in found.rows] == [row[:5] for row in of_venue.rows]
    assert market.prices(*asked) == found and vendor.count("histohour") == 1, "it is kept"


def test_without_the_flag_the_vendor_is_never_asked(
    venue: Coinbase, vendor: Vendor, settings: Any
) -> None:
    settings.TRADING = {**settings.TRADING, "FEATURE_VENDOR_FALLBACK": False}
    venue.plan("candles", *AWAY)
    with pytest.raises(VenueError, match="VENUE_ERROR"):
        market.prices(*span())
    assert vendor.asked == []


def test_labels_from_the_vendor_say_so_and_change_with_the_venue(
    venue: Coinbase, vendor: Vendor, link: BrokerConnection
) -> None:
    venue.plan("candles", *AWAY)
    imported(link)
    tags = BiasTag.objects.filter(is_current=True).order_by("trade__ts")
    assert tuple(tags.values_list("label", flat=True)) == PLAN
    assert {tag.features["prices"] for tag in tags} == {"cryptocompare"}
    venue.reset()
    cache.clear()
    services.rescore(link.user_id)
    run_jobs()
    tags = BiasTag.objects.filter(is_current=True)
    assert tags.count() == 12 and not any("prices" in tag.features for tag in tags)


def test_a_market_that_the_venue_does_not_know_has_the_prices_of_the_vendor(
    venue: Coinbase, vendor: Vendor, link: BrokerConnection
) -> None:
    at = now() - timedelta(days=2)
    venue.accounts[str(link.key_name)].fills = [
        fill("1", "BTC-USDT", "BUY", "1", "60000", at),
        fill("2", "GONE-USD", "BUY", "1", "2", at),
    ]
    imported(link)
    features = {tag.trade.symbol: tag.features for tag in BiasTag.objects.select_related("trade")}
    assert features["BTC-USDT"]["prices"] == "cryptocompare"
    assert features["GONE-USD"] == {"reason": "no_market_data"}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(200, {}, RATE_LIMITED), Fault(429, {"Retry-After": "30"}), Fault(500), Fault(0),
        Fault(200, {}, "<html>"), Fault(200, {}, "[]"), Fault(200, {}, '{"Response": "Success"}'),
        Fault(401, {}, '{"Response": "Error", "Message": "no", "Type": 1}'),
        Fault(200, {}, '{"Response": "Success", "Data": {"Data": [{"time": 1}]}}'),
    ],
)  # fmt: skip
def test_a_vendor_that_fails_leaves_the_failure_of_the_venue(
    venue: Coinbase, vendor: Vendor, fault: Fault
) -> None:
    venue.plan("candles", *AWAY)
    vendor.plan("histohour", fault)
    with freeze_clock() as clock:
        with pytest.raises(VenueError, match="VENUE_ERROR"):
            market.prices(*span())
        clock.tick(120)  # the vendor's meter is open again
        assert market.prices(*span()).source == "cryptocompare"


def test_a_vendor_that_is_behind_is_not_taken_for_prices(venue: Coinbase, vendor: Vendor) -> None:
    venue.plan("candles", *AWAY)
    vendor.behind = 2
    with pytest.raises(VenueError, match="VENUE_ERROR"):
        market.prices(*span())
    assert cache.get("x") is None and vendor.count("histohour") == 1


def test_a_limit_of_the_vendor_is_counted_and_waited_for(
    venue: Coinbase, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    monkeypatch.setattr(metrics.limited, "inc", lambda source: counted.append(source))
    venue.plan("candles", *AWAY)
    vendor.plan("histohour", Fault(200, {}, RATE_LIMITED))
    with freeze_clock() as clock:
        for _ in range(3):
            with pytest.raises(VenueError):
                market.prices(*span())
        assert vendor.count("histohour") == 1 and counted == ["vendor"]
        clock.tick(61)
        assert market.prices(*span()).source == "cryptocompare"


def test_hours_before_a_market_began_are_no_prices_and_gaps_are_flat(
    venue: Coinbase, vendor: Vendor
) -> None:
    made = vendor.market
    venue.plan("candles", *AWAY)
    begin = made.begin - timedelta(hours=10)
    found = market.prices("coinbase", "BTC-USD", begin, made.begin + timedelta(hours=20))
    assert found.source == "cryptocompare" and found.rows[0][0] > made.begin.timestamp()
    [missing, *_] = sorted(made._left_out["BTC-USD"])
    at = made.begin + timedelta(hours=missing)
    rows = market.prices("coinbase", "BTC-USD", at - timedelta(hours=2), at + timedelta(hours=2))
    assert [row[5] for row in rows.rows][2] == 0 and rows.rows[2][4] == rows.rows[1][4] > 0


def test_a_comparison_says_whose_prices_it_has_and_there_is_one(
    venue: Coinbase, vendor: Vendor, link: BrokerConnection
) -> None:
    imported(link)
    cache.clear()
    venue.plan("candles", *AWAY)
    trade = Trade.objects.order_by("ts")[0]
    ann = Caller("trader")
    asked = {"tradeId": str(trade.pk), "horizonDays": 2}
    assert ann.post("/simulations/simple", asked).status_code == 202
    run_jobs()
    shown = ann.post("/simulations/simple", asked).json()
    assert shown["status"] == "fresh" and shown["source"] == "cryptocompare"
    Simulation.objects.update(fresh_until=now())
    venue.reset()
    cache.clear()
    ann.post("/simulations/simple", asked)
    run_jobs()
    [row] = Simulation.objects.all()
    assert row.source == "coinbase" and row.delta is not None


def test_a_limit_of_the_venue_is_waited_for_without_the_vendor(
    venue: Coinbase, vendor: Vendor, link: BrokerConnection
) -> None:
    """Where the vendor fails as well, the scoring waits for the venue and uses no attempt."""
    venue.plan("candles", Fault(429, {"Retry-After": "100"}))
    vendor.plan("histohour", *AWAY)
    with freeze_clock() as clock:
        imported(link)
        assert ScoreRun.objects.get().state != "FAILED"
        with pytest.raises(MeterFull):
            market.prices(*span())
        clock.tick(130)
        run_jobs()
    assert ScoreRun.objects.get().state == "DONE"


def test_a_check_names_what_the_vendor_lacks(settings: Any) -> None:
    settings.TRADING = {"HEURISTICS_ONLY": True, "FEATURE_VENDOR_FALLBACK": True}
    assert [one.id for one in checks.check_vendor()] == ["trading.W002"]
    settings.TRADING = {**settings.TRADING, "VENDOR_API_KEY": "k"}
    assert checks.check_vendor() == []
    settings.TRADING = {**settings.TRADING, "VENDOR_URL": "http://127.0.0.1:9"}
    assert [one.id for one in checks.check_settings()] == ["trading.E002"]
    settings.TRADING = {"COINBASE_CLIENT_ID": "only"}
    assert [one.id for one in checks.check_settings()] == ["trading.E003"]
