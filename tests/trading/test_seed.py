"""The app's specification: a test for each sentence of its lists, which it quotes.

"Kill AI service" with real processes is in ``test_fleet``, and the full flow with a socket that is
cut in ``test_live``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

import jobs
from config.standins.trading import Coinbase, Fault
from config.standins.trading.market import PLAN, fill
from jobs import blobs, registry
from jobs.events import Event
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.trading.factories import WEEK, trade, user
from tests.trading.test_bias import candles
from trading import digesting, market, scoring, services
from trading.ai import bias, signatures
from trading.ai.indicators import Indicators
from trading.clients import ai
from trading.clock import hour_of, iso, now
from trading.models import (
    BiasTag,
    BrokerConnection,
    Digest,
    ImportRun,
    Insight,
    ScoreRun,
    Simulation,
    Trade,
)
from trading.payloads import DigestJob, ImportJob, ScoreJob, SimJob

pytestmark = pytest.mark.django_db(transaction=True)


def imported(link: BrokerConnection, since: datetime | None = None) -> ImportRun:
    job = services.start_import(link, since, by="tests")
    run_jobs()
    return ImportRun.objects.get(pk=job)


def payloads(topic: str) -> list[dict[str, Any]]:
    return [event.payload for event in emitted(topic)]


# ---- unit


def test_import_paging_dedupe_and_progress(venue: Coinbase, link: BrokerConnection) -> None:
    """ "Import: cursor paging & dedupe; progress events content." """
    venue.page = 5
    row = imported(link)
    cursors = [query.get("cursor", "") for _, what, query in venue.asked if what == "fills"]
    assert cursors[0] == "" and len(set(cursors)) == 3, "each page at the cursor of the one before"
    told = payloads("import.progress")
    assert [(one["fetched"], one["stored"]) for one in told] == [(5, 5), (10, 10), (12, 12)]
    assert {one["jobId"] for one in told} == {str(row.pk)}
    assert [one["percent"] for one in told] == [50, 66, 100]
    assert imported(link).stored == 0 and Trade.objects.count() == 12


@pytest.mark.parametrize(
    ("side", "rsi", "closes", "label", "confidence"),
    [
        ("BUY", 70.0, [100.0] * 79 + [109.0], "FOMO", 0.6),
        ("BUY", 75.0, [100.0] * 79 + [112.0], "FOMO", 1.0),
        ("BUY", 69.9, [100.0] * 79 + [112.0], "NEUTRAL", 0.5),
        ("SELL", 30.0, [100.0] * 79 + [90.0], "PANIC", 0.6),
        ("SELL", 25.0, [100.0] * 79 + [90.0], "PANIC", 0.8),
        ("SELL", 31.0, [100.0] * 79 + [90.0], "NEUTRAL", 0.5),
        ("BUY", 50.0, [100.0] * 78 + [99.9, 99.8], "DISCIPLINE", 0.7),
    ],
)  # fmt: skip
def test_indicators_decide_about_labels(
    side: str, rsi: float, closes: list[float], label: str, confidence: float
) -> None:
    """ "Score: indicators mocked → heuristic labels […]" """
    rows = candles(closes)
    count = len(rows)
    before: list[float | None] = [50.0] * (count - 1)
    given = Indicators(
        rsi=[*before, rsi], ema_fast=[101.0] * count, ema_slow=[100.0] * count,
        bb_mid=[95.0] * count, bb_upper=[110.0] * count, bb_lower=[80.0] * count,
        atr=[1.0] * count,
    )  # fmt: skip
    found = bias.score(rows, given, side, rows[-1].ts + 3600, closes[-1])
    assert (found.label, found.confidence) == (label, confidence)


def test_the_shape_of_what_scoring_publishes(venue: Coinbase, link: BrokerConnection) -> None:
    """ "Score: […] outbox payload shape." """
    imported(link)
    told = payloads("coach.reflect")
    assert len(told) == 12
    for one in told:
        assert set(one) == {"tradeId", "orderId", "labels", "insight", "sparklines", "tone"}
        [label] = one["labels"]
        assert set(label) == {"name", "confidence"} and 0.5 <= label["confidence"] <= 1
        assert 0 < len(one["insight"]) <= 220 and one["tone"] == "supportive"
        assert all(isinstance(price, float) for price in one["sparklines"])


def compared(link: BrokerConnection) -> tuple[Trade, Any]:
    imported(link)
    row = Trade.objects.filter(side="BUY").order_by("ts")[0]
    return row, lambda: services.simulate(link.user_id, row.pk, 3)


def test_a_comparison_is_missed_then_met(venue: Coinbase, link: BrokerConnection) -> None:
    """ "Sim: cache hit/miss; delta math […]" """
    _, ask = compared(link)
    missed = ask()
    assert not missed.is_fresh and missed.row.delta is None
    run_jobs()
    met = ask()
    assert met.is_fresh and met.job_id is None
    assert met.row.delta == met.row.hold - met.row.actual
    assert len(met.row.curves) == 72
    with freeze_clock() as clock:
        clock.tick(timedelta(hours=1, seconds=1))
        assert not ask().is_fresh, "after an hour it is computed again"


def test_a_vendors_429_delays_a_comparison_and_the_old_one_is_shown(
    venue: Coinbase, link: BrokerConnection
) -> None:
    """ "Sim: […] vendor 429 backoff path." """
    _, ask = compared(link)
    ask()
    run_jobs()
    first = ask().row.delta
    with freeze_clock() as clock:
        clock.tick(timedelta(hours=1, seconds=1))
        cache.clear()
        asked = venue.count("candles")
        venue.plan("candles", Fault(429, {"Retry-After": "30"}))
        stale = ask()
        assert (stale.is_fresh, stale.row.delta) == (False, first)
        run_jobs()
        clock.tick(29)
        run_jobs()
        assert venue.count("candles") == asked + 1, "nothing before Retry-After"
        assert Simulation.objects.get().error == "VENUE_LIMITED"
        clock.tick(60)
        run_jobs()
        assert ask().is_fresh and ask().row.error == ""


def test_a_digest_counts_stores_and_publishes(venue: Coinbase, link: BrokerConnection) -> None:
    """ "Digest: aggregation math; S3 key path; outbox event." """
    owner = user("digest")
    trade(1, "BUY", "2", "100", 1, owner=owner, fee="2")
    trade(2, "SELL", "1", "130", 30, owner=owner, fee="1")
    trade(3, "SELL", "1", "90", 31, owner=owner)
    start, end = WEEK.date(), (WEEK + timedelta(days=7)).date()
    services.enqueue_digest(owner.pk, start, end)
    run_jobs()
    row = Digest.objects.get()
    assert row.payload["profit"]["USD"]["total"] == "17"  # 130 - 1 - 101, and 90 - 101
    assert row.payload["realised"] == {"pieces": 2, "wins": 1, "winRate": "0.5000"}
    assert row.payload["holdingHours"] == "29.50"
    assert row.storage_key == f"digests/{owner.pk}/2026-01-05-2026-01-12.json"
    assert [blob.key for blob in blobs.store().list(f"digests/{owner.pk}/")] == [row.storage_key]
    assert payloads("digest.ready") == [
        {"digestId": str(row.pk), "period": {"start": "2026-01-05", "end": "2026-01-12"}}
    ]


# ---- integration


def test_the_full_flow_and_its_replay(venue: Coinbase, link: BrokerConnection) -> None:
    """ "Full flow: enqueue import → trades in DB → score → outbox rows observed." and
    "Replay: after outbox writes, Core's `/internal/events?since` returns events in order." """
    imported(link)
    assert Trade.objects.count() == 12
    tags = BiasTag.objects.filter(is_current=True).order_by("trade__ts")
    assert tuple(tags.values_list("label", flat=True)) == PLAN
    written: list[Event] = emitted("import.progress", "coach.reflect")
    client = Client()
    client.force_login(link.user)
    since, seen = 0, list[dict[str, Any]]()
    while page := client.get("/internal/events", {"since": since, "limit": 5}).json()["data"]:
        seen += page
        since = page[-1]["eventId"]
    assert [one["eventId"] for one in seen] == [event.position for event in written]
    assert [one["type"] for one in seen] == [event.topic for event in written]
    assert seen[0]["type"] == "import.progress" and seen[0]["v"] == 1


# ---- chaos


def test_a_storm_of_429_leaves_the_retries_alone(venue: Coinbase, link: BrokerConnection) -> None:
    """ "Broker 429 storm: import backs off; completes under global retry budget." """
    venue.page = 2
    venue.plan("fills", *[Fault(429, {"Retry-After": "20"}) for _ in range(10)])
    with freeze_clock() as clock:
        job = services.start_import(link, by="tests")
        for _ in range(60):
            run_jobs()
            if jobs.get(job).state == "succeeded":
                break
            clock.tick(21)
    assert ImportRun.objects.get(pk=job).state == "DONE"
    found = jobs.get(job)
    assert (found.state, found.failures) == ("succeeded", 0)
    assert Trade.objects.count() == 12


def test_jobs_are_unique_by_their_contents(venue: Coinbase, link: BrokerConnection) -> None:
    """ "Redis restart: idempotent job IDs prevent duplication." """
    first = services.start_import(link, by="tests")
    cache.clear()
    assert services.start_import(link, by="tests") == first
    run_jobs()
    assert services.start_import(link, by="tests") != first, "only among unfinished jobs"


# ---- the table


def test_retries_and_places_are_those_of_the_tables() -> None:
    """ "5 retries, exp backoff (1s → 60s)", "2 retries, linear (1s, 5s)", "DLQ? […] No" and
    `WORKER_CONCURRENCY_IMPORT=2`, `..._SCORE=2`, `..._SIM=4`, `..._DIGEST=1`."""
    found = {
        payload.kind: (h.queue, h.max_attempts, h.dead_letter, h.limit and h.limit.at_once)
        for payload in (ImportJob, ScoreJob, SimJob, DigestJob)
        for h in [registry.get(payload.kind)]
    }
    assert found == {
        "import.trades": ("q_import", 5, True, 2),
        "score.bias": ("q_score", 3, True, 2),
        "simulate.simple": ("q_sim", 3, False, 4),
        "digest.weekly": ("q_digest", 3, True, 1),
    }


# ---- what must not be taken literally


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
    named = services.start_import(services.choose_link(link.user_id, "coinbase"), by="tests")
    assert services.start_import(services.choose_link(link.user_id), by="tests") == named


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
