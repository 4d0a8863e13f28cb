"""Where the specification must not be taken literally, and what venues really do."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.cache import cache

import jobs
from config.standins.trading import Coinbase
from config.standins.trading.market import fill
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.trading.factories import WEEK, trade, user
from tests.trading.test_seed import imported, payloads
from trading import digesting, importing, links, market, scoring, services
from trading.admin import figures
from trading.ai import bias, signatures
from trading.ai.indicators import Indicators
from trading.clients import ai
from trading.clock import day_of, hour_of, iso, now
from trading.models import (
    BiasTag,
    BrokerConnection,
    Insight,
    ScoreRun,
    Simulation,
    Trade,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_second_click_is_the_same_import_although_its_moment_differs(
    link: BrokerConnection,
) -> None:
    """The key of an import is of the UTC day, not of the millisecond."""
    day = now() - timedelta(days=3)
    first = services.start_import(link, day, by="tests")
    assert services.start_import(link, day + timedelta(milliseconds=1), by="tests") == first


def test_a_finished_scoring_does_not_swallow_a_later_one(
    venue: Coinbase, link: BrokerConnection
) -> None:
    """Ids are unique among unfinished jobs only: later fills of the same day are labelled."""
    account = venue.accounts[str(link.key_name)]
    fills = account.fills
    account.fills = fills[:1]
    imported(link)
    day = datetime.fromisoformat(fills[0]["trade_time"])
    late = fill("late", "BTC-USD", "BUY", "0.1", "60000", day + timedelta(minutes=1))
    account.fills = [*fills[:1], late]
    imported(link)
    assert ScoreRun.objects.filter(state="DONE").count() == 2
    assert BiasTag.objects.filter(trade__ext_id="entry-late", is_current=True).exists()


def test_what_is_imported_during_a_scoring_is_scored_after_it(
    venue: Coinbase, link: BrokerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running scoring may have passed what an import adds, so only a waiting one is joined."""
    real, asked = scoring._judge, set()

    def meanwhile(desk: scoring.Desk, batch: list[Trade]) -> list[scoring.Verdict]:
        day = desk.row.since
        asked.add((desk.row.pk, scoring.enqueue(link.user_id, day)))
        monkeypatch.setattr(scoring, "_judge", real)
        return real(desk, batch)

    monkeypatch.setattr(scoring, "_judge", meanwhile)
    imported(link)
    [(running, following)] = asked
    assert running != following
    assert set(ScoreRun.objects.values_list("pk", "state")) == {
        (running, "DONE"), (following, "DONE"),
    }  # fmt: skip


def test_a_link_is_resolved_before_the_key_is_made(venue: Coinbase, link: BrokerConnection) -> None:
    """The same import with and without its broker is one."""
    named = services.start_import(links.choose(link.user_id, "coinbase"), by="tests")
    assert services.start_import(links.choose(link.user_id), by="tests") == named


def test_an_order_in_pieces_has_one_sentence_and_counts_once(
    venue: Coinbase, link: BrokerConnection
) -> None:
    """Each fill is labelled and published; the sentence is written once per order and label."""
    venue.accounts[str(link.key_name)].fills = venue.market.fills(per_order=3)
    imported(link)
    told = payloads("coach.reflect")
    assert len(told) == 36 and len({one["orderId"] for one in told}) == 12
    assert Insight.objects.count() == 12
    begin = Trade.objects.order_by("ts")[0].ts
    monday = (begin - timedelta(days=begin.weekday())).date()
    counted = 0
    while monday <= now().date():
        following = monday + timedelta(days=7)
        counted += digesting.aggregate(link.user_id, monday, following)["orders"]
        monday = following
    assert counted == 12


def test_a_week_ends_before_monday(venue: Coinbase) -> None:
    """The end of a period is exclusive."""
    owner = user("weeks")
    trade(1, "BUY", "1", "100", 7 * 24 - 0.001, owner=owner)
    trade(2, "BUY", "1", "100", 7 * 24, owner=owner)
    start, end = WEEK.date(), (WEEK + timedelta(days=7)).date()
    assert digesting.aggregate(owner.pk, start, end)["orders"] == 1
    assert digesting.aggregate(owner.pk, end, end + timedelta(days=7))["orders"] == 1


def test_hours_without_trades_repeat_the_close_and_early_candles_are_cut(venue: Coinbase) -> None:
    """Venues omit hours without trades, and return candles before the start."""
    made = venue.market
    [missing, *_] = sorted(made._left_out["BTC-USD"])
    at = made.begin + timedelta(hours=missing)
    rows = market.hours("BTC-USD", at - timedelta(hours=3), at + timedelta(hours=3))
    first = int((at - timedelta(hours=3)).timestamp())
    assert [row[0] for row in rows] == [first + 3600 * n for n in range(6)]
    before, gap = rows[2], rows[3]
    assert gap[1:5] == (before[4],) * 4 and gap[5] == 0


def test_an_open_hour_is_neither_used_nor_kept(venue: Coinbase) -> None:
    """A candle that is still open would be a look into the future of its hour."""
    with freeze_clock() as clock:
        moment = clock.now
        rows = market.hours("BTC-USD", moment - timedelta(hours=5), moment + timedelta(hours=5))
    assert all(row[0] + 3600 <= hour_of(moment).timestamp() for row in rows)
    last = [query["end"] for _, what, query in venue.asked if what == "candles"][-1]
    assert int(last) + 3600 <= hour_of(moment).timestamp()


@pytest.mark.parametrize("kept", ["junk", [["1", "2"]], [[1, "x", "x", "x", "x", "x"]]])
def test_a_forged_entry_of_the_cache_is_a_miss(
    venue: Coinbase, monkeypatch: pytest.MonkeyPatch, kept: Any
) -> None:
    """Whoever can write to the cache decides about no label."""
    with freeze_clock() as clock:
        span = "BTC-USD", clock.now - timedelta(hours=5), clock.now
        wanted = market.hours(*span)
        asked = venue.count("candles")
        monkeypatch.setattr(cache, "get", lambda *given: kept)
        assert market.hours(*span) == wanted
    assert venue.count("candles") > asked


def test_a_months_series_begins_250_hours_before_it(
    venue: Coinbase, link: BrokerConnection
) -> None:
    """Wilder's values depend on where the series begins, so the trade alone decides about it."""
    venue.accounts[str(link.key_name)].fills = venue.market.fills()[-1:]
    imported(link)
    row = Trade.objects.get()
    wanted = row.ts.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    starts = [int(query["start"]) for _, what, query in venue.asked if what == "candles"]
    begin = (wanted - timedelta(hours=250)).timestamp()
    assert begin - 240 * 3600 < min(starts) <= begin
    assert sum(what == "candles" for _, what, _ in venue.asked) <= 6, "blocks are fetched once"


def test_the_result_of_a_comparison_holds_totals_only(
    venue: Coinbase, link: BrokerConnection
) -> None:
    """Thirty days of hourly curves can exceed the limit of a result."""
    imported(link)
    row = Trade.objects.filter(side="BUY").order_by("ts")[0]
    asked = services.simulate(link.user_id, row.pk, 30)
    run_jobs()
    result = jobs.get(asked.job_id or "").result
    assert result is not None and set(result) == {"simulationId", "isPartial", "delta"}
    kept = Simulation.objects.get()
    assert kept.is_partial and kept.until is not None, "the days are not over yet"


def test_a_rerun_of_a_scoring_publishes_nothing_again(
    venue: Coinbase, link: BrokerConnection
) -> None:
    """A retry must not repeat the events of trades that are done; new figures are kept quietly."""
    imported(link)
    before = len(emitted("coach.reflect"))
    BiasTag.objects.update(confidence=Decimal("0.1"))
    services.rescore(link.user_id)
    run_jobs()
    assert len(emitted("coach.reflect")) == before
    assert not BiasTag.objects.filter(confidence=Decimal("0.1")).exists()


def test_batches_change_no_label_and_each_month_is_asked_for_once(
    venue: Coinbase, link: BrokerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trade alone decides; a symbol and month is one request of fewer than 1000 candles."""
    real, asked = ai.indicators, list[tuple[str, int]]()

    def counted(symbol: str, rows: list[bias.Candle]) -> Indicators:
        asked.append((symbol, len(rows)))
        return real(symbol, rows)

    monkeypatch.setattr(ai, "indicators", counted)
    imported(link)
    months = {(row.symbol, row.ts.month) for row in Trade.objects.all()}
    assert len(asked) == len(months) and max(count for _, count in asked) < 1000

    def labels() -> list[tuple[Any, ...]]:
        tags = BiasTag.objects.filter(is_current=True).order_by("trade__ts")
        return list(tags.values_list("trade_id", "label", "confidence", "features", "sparkline"))

    wanted = labels()
    for size in (1, 5):
        BiasTag.objects.all().delete()
        monkeypatch.setattr(scoring, "BATCH", size)
        services.rescore(link.user_id)
        run_jobs()
        assert labels() == wanted, size


def test_a_signed_time_without_its_zone_is_refused() -> None:
    """A time that is read in the zone of the machine would be hours off elsewhere."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    for written, error in ((stamp, "skew"), (f"{stamp}Z", "")):
        given = {
            "X-KeyId": "k", "X-Timestamp": written,
            "X-Signature": signatures.sign("s", written, b"{}"),
        }  # fmt: skip
        try:
            signatures.verify({"k": "s"}, given, b"{}")
            assert not error
        except signatures.BadSignature as refused:
            assert refused.reason == error


def test_payloads_are_in_utc(link: BrokerConnection) -> None:
    """Times are UTC, wherever the machine is."""
    services.start_import(link, datetime.fromisoformat("2026-01-05T01:30:00+02:00"), by="tests")
    [job] = jobs.Job.objects.filter(kind="import.trades")
    assert job.payload["sinceIso"] == iso(datetime(2026, 1, 4, tzinfo=UTC))


def test_a_fill_at_the_very_first_moment_is_imported(
    venue: Coinbase, link: BrokerConnection
) -> None:
    """The venue leaves out what was traded at the moment that is asked for."""
    midnight = day_of(now() - timedelta(days=2))
    before = midnight - timedelta(microseconds=1)
    venue.accounts[str(link.key_name)].fills = [
        fill("at", "BTC-USD", "BUY", "1", "60000", midnight),
        fill("before", "BTC-USD", "BUY", "1", "60000", before),
    ]
    imported(link, midnight)
    assert [row.ext_id for row in Trade.objects.all()] == ["entry-at"]


def test_candles_are_put_in_order(venue: Coinbase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The venue answers with the newest first, and promises no order."""
    with freeze_clock() as clock:
        span = "BTC-USD", clock.now - timedelta(hours=30), clock.now
        wanted = market.hours(*span)
        cache.clear()
        real = venue.market.candles
        monkeypatch.setattr(venue.market, "candles", lambda *given: sorted(
            real(*given), key=lambda row: row["close"]))  # fmt: skip
        assert market.hours(*span) == wanted


@pytest.mark.parametrize(
    "change",
    [
        {"close": "NaN"}, {"low": "999999"}, {"open": "0"}, {"start": "1767225601"}, {"high": None},
        {"volume": "-1"}, {"close": 7},
    ],
)  # fmt: skip
def test_impossible_candles_fail_a_scoring_and_label_nothing(
    venue: Coinbase, link: BrokerConnection, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    real = venue.market.candles
    monkeypatch.setattr(
        venue.market, "candles", lambda *given: [{**row, **change} for row in real(*given)]
    )
    imported(link)
    row = ScoreRun.objects.get()
    assert (row.state, row.error) == ("FAILED", "BAD_CANDLES")
    assert not BiasTag.objects.exists() and Trade.objects.count() == 12


def test_a_market_without_prices_is_neutral_and_says_why(
    venue: Coinbase, link: BrokerConnection
) -> None:
    at = now() - timedelta(days=2)
    venue.accounts[str(link.key_name)].fills = [fill("1", "GONE-USD", "BUY", "1", "2", at)]
    imported(link)
    tag = BiasTag.objects.get()
    assert (tag.label, float(tag.confidence)) == ("NEUTRAL", 0.0)
    assert tag.features == {"reason": "no_market_data"}
    [[_, words]] = figures.rows_of(tag.features)
    assert words == "The venue has no prices of this market."


def test_long_imports_and_scorings_let_others_run(
    venue: Coinbase, link: BrokerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand fills meet no timeout: the rest follows, and no attempt is used."""
    venue.page = 5
    for module in (importing, scoring):
        monkeypatch.setattr(module, "STRETCH", -1.0)
    monkeypatch.setattr(scoring, "BATCH", 5)
    services.start_import(link, by="tests")
    runs = run_jobs().runs
    ended = Counter((run.kind, str(run.state)) for run in runs)
    assert ended == {
        ("import.trades", "pending"): 2, ("import.trades", "succeeded"): 1,
        ("score.bias", "pending"): 3, ("score.bias", "succeeded"): 1,
    }  # fmt: skip
    assert venue.count("fills") == 3, "no page is fetched twice"
    assert {job.failures for job in jobs.Job.objects.all()} == {0}
    assert ScoreRun.objects.get().scored == BiasTag.objects.count() == 12
