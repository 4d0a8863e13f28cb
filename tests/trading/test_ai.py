"""The AI service: its signatures and limits; and the client when the service is away or odd."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

import jobs
from config.standins.trading import Coinbase
from jobs import http
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.trading.factories import AI_KEY, AI_SECRET
from trading import importing, limits, services
from trading.ai import signatures
from trading.ai.reflect import TONES, insight
from trading.clients import ai
from trading.errors import AiAway
from trading.fills import read_fill
from trading.models import AiSignature, BiasTag, BrokerConnection, Label, ScoreRun
from trading.retention import clear

pytestmark = pytest.mark.django_db(transaction=True)
CANDLES = [
    {"ts": 3600 * n, "open": 100 + n, "high": 102 + n, "low": 99 + n, "close": 101 + n, "volume": 1}
    for n in range(80)
]
SERIES = {"symbol": "BTC-USD", "granularity": "1h", "candles": CANDLES}


def ask(path: str, body: Any, **headers: str) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {**signatures.headers(AI_KEY, AI_SECRET, raw), **headers}
    del given["Content-Type"]
    return Client().post(f"/ai/v1/{path}", raw, content_type="application/json", headers=given)


def test_each_endpoint_answers(venue: Coinbase) -> None:
    found = ask("indicators", {"series": SERIES}).json()
    assert {len(values) for values in found.values()} == {80} and found["rsi"][-1] == 100.0
    trade = {"side": "BUY", "entry_ts": 3600 * 80, "entry_price": 181}
    scored = ask("bias/score", {"series": SERIES, "trade": trade}).json()
    assert scored["label"] == "FOMO" and scored["confidence"] == 1.0
    said = ask("nlg/reflect", {"label": "FOMO", "features": scored["features"], "max_chars": 60})
    assert 0 < len(said.json()["insight"]) <= 60


def test_a_request_must_be_signed_recent_and_new(venue: Coinbase) -> None:
    body = json.dumps({"label": "NEUTRAL", "features": {}}).encode()

    def refused(**headers: str) -> str:
        answer = ask("nlg/reflect", body, **headers)
        assert answer.status_code == 401
        reason: str = answer.json()["error"]
        return reason

    assert refused(**{"X-KeyId": "nobody"}) == "key"
    assert refused(**{"X-Signature": "0" * 64}) == "sig"
    assert refused(**{"X-Signature": "é"}) == "sig"
    for shift in (timedelta(seconds=-301), timedelta(seconds=310)):
        stamp = (datetime.now(UTC) + shift).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        signed = signatures.sign(AI_SECRET, stamp, body)
        assert refused(**{"X-Timestamp": stamp, "X-Signature": signed}) == "skew"
    once = signatures.headers(AI_KEY, AI_SECRET, body)
    assert ask("nlg/reflect", body, **once).status_code == 200
    assert refused(**once) == "replay"
    other = json.dumps({"label": "FOMO", "features": {}}).encode()
    assert ask("nlg/reflect", other, **once).json()["error"] in ("sig", "replay")


def test_equal_bodies_at_once_have_different_signatures() -> None:
    made = {signatures.headers(AI_KEY, AI_SECRET, b"{}")["X-Signature"] for _ in range(50)}
    assert len(made) == 50


def test_signatures_are_forgotten_after_ten_minutes(venue: Coinbase) -> None:
    ask("nlg/reflect", {"label": "NEUTRAL", "features": {}})
    assert list(clear(False, 100)) == []
    with freeze_clock() as clock:
        clock.tick(601)
        assert {"AI signatures": 1} in list(clear(False, 100))
    assert AiSignature.objects.count() == 0


@pytest.mark.parametrize(
    "series",
    [
        {**SERIES, "candles": CANDLES[:49]}, {**SERIES, "candles": CANDLES[::-1]},
        {**SERIES, "candles": [*CANDLES, CANDLES[-1]]}, {**SERIES, "granularity": "2h"},
        {**SERIES, "candles": [{**CANDLES[0], "close": 0}, *CANDLES[1:]]},
        {**SERIES, "candles": [{**CANDLES[0], "close": "NaN"}, *CANDLES[1:]]},
        {**SERIES, "candles": [{"ts": 0}, *CANDLES[1:]]}, {**SERIES, "extra": 1}, [], None,
    ],
)  # fmt: skip
def test_a_bad_series_is_refused(venue: Coinbase, series: Any) -> None:
    assert ask("indicators", {"series": series}).status_code == 422


def test_a_body_may_have_512_kib(venue: Coinbase) -> None:
    assert ask("indicators", b" " * (512 * 1024 + 1)).status_code == 413


def test_a_key_may_ask_sixty_times_at_once(venue: Coinbase) -> None:
    asked = {"label": "NEUTRAL", "features": {}}
    with freeze_clock() as clock:  # or a slow machine would never ask too often
        answers = [ask("nlg/reflect", asked) for _ in range(62)]
        assert [answer.status_code for answer in answers] == [200] * 60 + [429] * 2
        wait = int(answers[-1]["Retry-After"])
        assert 1 <= wait <= 3
        clock.tick(wait)
        assert ask("nlg/reflect", asked).status_code == 200


@pytest.mark.parametrize("label", Label.values)
@pytest.mark.parametrize("tone", TONES)
def test_sentences_give_no_advice_and_fit(label: str, tone: str) -> None:
    features = {"spike_pct": 12.345, "window_h": 24, "rsi_entry": 71.0, "dd_pct": float("nan")}
    for most in (60, 100, 220, 300):
        text = insight(label, features, tone, most)
        assert 0 < len(text) <= most and "nan" not in text
        assert not {"should buy", "should sell", "buy now", "sell now"} & {text.lower()}


# ---- the client


def scored(link: BrokerConnection) -> ScoreRun:
    services.start_import(link, by="tests")
    run_jobs()
    return ScoreRun.objects.get()


def test_a_dead_service_fails_a_job_three_times(
    venue: Coinbase, link: BrokerConnection, settings: Any
) -> None:
    settings.TRADING = {**settings.TRADING, "AI_BASE_URL": "http://127.0.0.1:9/ai"}
    with freeze_clock() as clock:
        row = scored(link)
        for _ in range(3):
            clock.tick(61)
            run_jobs()
        assert [e.payload["job"] for e in emitted("jobs.job.failed")] == [str(row.pk)]
    job = jobs.get(row.pk)
    assert (job.state, job.failures) == ("failed", 3)
    row.refresh_from_db()
    assert (row.state, row.error) == ("FAILED", "AI_AWAY")
    assert jobs.models.DeadLetter.objects.filter(job_id=row.pk).exists()
    assert BiasTag.objects.count() == 0


def test_in_an_outage_jobs_wait_without_losing_attempts(
    venue: Coinbase, link: BrokerConnection, settings: Any
) -> None:
    alive = settings.TRADING
    for _ in range(5):  # what other jobs have met
        with pytest.raises(AiAway), ai.breaker():
            raise AiAway("AI_AWAY")
    settings.TRADING = {**alive, "AI_BASE_URL": "http://127.0.0.1:9/ai"}
    with freeze_clock() as clock:
        row = scored(link)
        for _ in range(12):
            clock.tick(300)
            run_jobs()
        assert jobs.get(row.pk).failures == 0 and jobs.get(row.pk).state == "pending"
        row.refresh_from_db()
        assert (row.state, row.error) == ("LOAD_TRADES", "AI_AWAY"), "the trader reads why"
        settings.TRADING = alive
        for _ in range(3):
            clock.tick(61)
            run_jobs()
    row.refresh_from_db()
    assert (row.state, row.scored, row.error) == ("DONE", 12, "")


@pytest.mark.slow
def test_an_outage_of_an_hour_kills_none_of_fifty_jobs(
    venue: Coinbase, link: BrokerConnection, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide, taken = limits.ai, []

    class Counted:
        def take(self) -> None:
            taken.append(wide.name)
            wide.take()

    monkeypatch.setattr(limits, "ai", Counted())
    alive = settings.TRADING
    settings.TRADING = {**alive, "AI_BASE_URL": "http://127.0.0.1:9/ai"}
    [fill] = [read_fill(row) for row in venue.market.fills()[1:2]]
    owners = [User.objects.create_user(f"one-of-fifty-{uuid.uuid4().hex[:12]}") for _ in range(50)]
    for owner in owners:
        importing.upsert(owner.pk, "coinbase", [fill])
    with freeze_clock() as clock:
        for owner in owners:
            services.rescore(owner.pk)
        for _ in range(4):
            run_jobs()
            clock.tick(900)
        rows = list(jobs.Job.objects.filter(kind="score.bias"))
        assert len(rows) == 50 and {row.state for row in rows} <= {"pending", "queued"}
        assert sum(row.failures for row in rows) == 5, "what opened the breaker, and no more"
        assert len(taken) < 20, "waiting takes nothing from the meter"
        settings.TRADING = alive
        for _ in range(20):  # a probe, and the others after it
            run_jobs()
            if not ScoreRun.objects.exclude(state="DONE").exists():
                break
            clock.tick(61)
    assert set(ScoreRun.objects.values_list("state", flat=True)) == {"DONE"}
    assert BiasTag.objects.filter(is_current=True, label="FOMO").count() == 50
    assert not jobs.models.DeadLetter.objects.exists()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"rsi": [1]}', "ai_bad_answer"), ("[]", "ai_bad_answer"), ("no json", "ai_bad_answer"),
        ("{}", "ai_bad_answer"),
    ],
)  # fmt: skip
def test_an_answer_of_wrong_shape_makes_the_series_neutral(
    venue: Coinbase, link: BrokerConnection, monkeypatch: pytest.MonkeyPatch, body: str, reason: str
) -> None:
    real = http.post

    def odd(url: str, **options: Any) -> http.Response:
        if url.endswith("/indicators"):
            return http.Response(200, content=body.encode())
        return real(url, **options)

    monkeypatch.setattr(http, "post", odd)
    assert scored(link).state == "DONE"
    tags = BiasTag.objects.filter(is_current=True)
    assert {(tag.label, float(tag.confidence)) for tag in tags} == {("NEUTRAL", 0.0)}
    assert {tag.features["reason"] for tag in tags} == {reason}


def test_heuristics_only_labels_without_the_service_and_says_so(
    venue: Coinbase, link: BrokerConnection, settings: Any
) -> None:
    scored(link)
    wanted = list(BiasTag.objects.order_by("trade_id").values_list("label", "confidence"))
    BiasTag.objects.all().delete()
    settings.TRADING = {
        "COINBASE_URL": settings.TRADING["COINBASE_URL"], "HEURISTICS_ONLY": True
    }  # fmt: skip
    services.rescore(link.user_id)
    run_jobs()
    found = BiasTag.objects.order_by("trade_id")
    assert list(found.values_list("label", "confidence")) == wanted
    assert {tag.source for tag in found} == {"heuristics"}


def test_without_any_service_the_run_says_what_is_missing(
    venue: Coinbase, link: BrokerConnection, settings: Any
) -> None:
    settings.TRADING = {"COINBASE_URL": settings.TRADING["COINBASE_URL"]}
    row = scored(link)
    assert (row.state, row.error) == ("FAILED", "NOT_SET_UP")
