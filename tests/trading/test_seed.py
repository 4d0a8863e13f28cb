"""The app's specification: a test for each sentence of its lists, which it quotes.

"Kill AI service" with real processes is in ``test_fleet``, and the full flow with a socket that is
cut in ``test_live``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

import jobs
from config.standins.trading import Coinbase, Fault
from config.standins.trading.market import PLAN
from jobs import blobs, registry
from jobs.events import Event
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.trading.factories import WEEK, trade, user
from tests.trading.test_bias import candles
from trading import services
from trading.ai import bias
from trading.ai.indicators import Indicators
from trading.clock import week_of
from trading.models import (
    BiasTag,
    BrokerConnection,
    Digest,
    ImportRun,
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


def test_comparisons_and_digests_say_at_which_step_they_are(
    venue: Coinbase, link: BrokerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Diagrams C and D."""
    notes: list[str] = []
    real = jobs.Context.progress

    def noted(ctx: jobs.Context, done: int, total: int | None = None, note: str = "") -> None:
        notes.append(note)
        real(ctx, done, total, note)

    monkeypatch.setattr(jobs.Context, "progress", noted)
    row, ask = compared(link)
    ask()
    venue.plan("candles", Fault(429, {"Retry-After": "30"}))
    cache.clear()
    with freeze_clock() as clock:
        run_jobs()
        assert notes == ["CACHE_CHECK", "FETCH", "RETRY"]
        notes.clear()
        clock.tick(60)
        run_jobs()
    assert notes == ["CACHE_CHECK", "FETCH", "BUILD_CURVES", "CACHE_SET", "RETURN"]
    notes.clear()
    start = week_of(row.ts).date()
    services.enqueue_digest(link.user_id, start, start + timedelta(days=7))
    run_jobs()
    assert notes == ["LOAD_WINDOW", "AGGREGATE", "SNAPSHOT_S3", "UPSERT_DB", "EMIT_READY"]


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
