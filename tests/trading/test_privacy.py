"""Secrets, and what a venue says, are found nowhere; amounts and ids are never altered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from config.standins.trading import Coinbase, Fault, new_account
from jobs import blobs
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.trading.factories import AI_SECRET, WEEK, linked, trade, user
from tests.trading.test_admin import PAGES
from trading import services
from trading.clock import now, week_of
from trading.models import BiasTag, BrokerConnection, ImportRun, Rule, ScoreRun, Trade

pytestmark = pytest.mark.django_db(transaction=True)
CANARY = "canary-7f3a91"


def everything_stored() -> str:
    """Every row of every table, as text."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT row_to_json(t)::text FROM "{table}" t')  # noqa: S608
            found += [row[0] for row in cursor.fetchall()]
    return "\n".join(found)


def snapshots(of: int) -> str:
    """The snapshots of a user, with their keys."""
    store, found = blobs.store(), []
    for blob in store.list(f"digests/{of}/"):
        with store.read(blob.key) as pieces:
            found.append(f"{blob.key} {b''.join(pieces).decode()}")
    assert found
    return "\n".join(found)


READS: dict[bytes, Callable[[Any, bytes], Any]] = {
    b"string": lambda client, key: client.get(key),
    b"hash": lambda client, key: client.hgetall(key),
    b"list": lambda client, key: client.lrange(key, 0, -1),
    b"set": lambda client, key: client.smembers(key),
    b"zset": lambda client, key: client.zrange(key, 0, -1),
    b"stream": lambda client, key: client.xrange(key),
}


def everything_in_redis() -> str:
    """Every key with its value, as text."""
    with redis.Redis.from_url(settings.CACHES["default"]["LOCATION"]) as client:
        keys = list(client.scan_iter())
        found = [
            (key, READS[kind](client, key)) for key in keys if (kind := client.type(key)) in READS
        ]
    assert any(b"ohlcv" in key for key, _ in found), "the candles are there"
    return repr(found)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Every span that ends during the test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace_api, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


LINK = re.compile(r'href="(/admin/(?:jobs|trading)/[^"#]*)"')
API = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())["paths"]


def pages_of_the_admin(boss: User) -> str:
    """Every page of jobs and of the app that a superuser can reach, each address once."""
    client = Client()
    client.force_login(boss)
    ahead = ["/admin/", *(f"/admin/trading/{name}/" for name in PAGES), "/metrics"]
    ahead += [
        "/api/v1/audit",
        "/api/v1/events",
        "/api/v1/jobs?include=payload,progress,attempts,history",
    ]
    seen: dict[str, str] = {}
    while ahead:
        path = ahead.pop(0).replace("&amp;", "&")
        bare = path.partition("?")[0]
        if bare in seen:
            continue
        answer: Any = client.get(path)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        seen[bare] = body.decode(errors="replace")
        if len(seen) < 120:
            ahead += LINK.findall(seen[bare])
    kinds = {"/admin/jobs/job/", "/admin/jobs/deadletter/", "/admin/trading/trade/"}
    for kind in kinds:
        assert any(path.startswith(kind) and path != kind for path in seen), kind
    return "".join(seen.values())


def answers_of_the_api(venue: Coinbase, link: BrokerConnection) -> str:
    """Every answer of the app's API to the trader: all that can be read, and refusals."""
    client, found = Client(), []
    client.force_login(link.user)
    trade_row = Trade.objects.filter(user=link.user)[0]
    ids = {"trade_id": trade_row.pk, "days": 7, "link_id": link.pk}
    jobs_of: dict[str, Any] = {"imports": ImportRun, "scores": ScoreRun}
    for path, operations in API.items():
        if not path.startswith("/api/v1/trading") or "get" not in operations:
            continue
        for name, model in jobs_of.items():
            if f"/{name}/" in path:
                ids["job_id"] = model.objects.filter(user=link.user)[0].pk
        answer = client.get(path.format(**ids))
        assert answer.status_code == 200, (path, answer.content)
        found.append(f"{answer.content.decode()} {answer.headers}")

    def refused(path: str, body: dict[str, Any]) -> None:
        answer = client.post(
            f"/api/v1/trading{path}", json.dumps(body), content_type="application/json"
        )
        assert answer.status_code >= 400, (path, answer.content)
        found.append(f"{answer.content.decode()} {answer.headers}")

    key = {"keyName": link.key_name, "secret": link.secret}
    for body in (
        {"keyName": CANARY, "secret": CANARY}, {**key, "secret": [CANARY]},
        {**key, "more": CANARY}, key,
    ):  # fmt: skip
        refused("/brokers/coinbase/connect", body)
    for status in (400, 401, 403, 404, 500):
        fault = Fault(status, {"X-Told": CANARY}, f"PERMISSION_DENIED {CANARY}")
        venue.plan("key_permissions", fault, fault)
        refused(f"/brokers/{link.pk}/test", {})
        venue._faults.clear()
    return "".join(found)


def test_keys_and_answers_are_stored_told_and_logged_nowhere(
    venue: Coinbase,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    traces: InMemorySpanExporter,
) -> None:
    account = venue.add(new_account(f"organizations/{CANARY}/key"))
    account.fills = venue.market.fills()
    link = linked(account)
    secrets = [CANARY, account.secret.splitlines()[2], AI_SECRET]
    with freeze_clock() as clock:
        for what, fault in (
            ("fills", Fault(500, body=CANARY)),
            ("fills", Fault(403, body=f"PERMISSION_DENIED {CANARY}")),
            ("fills", Fault(200, body=json.dumps({"fills": [{"entry_id": CANARY}]}))),
            ("candles", Fault(400, body=CANARY)), ("none", Fault()),
        ):  # fmt: skip
            venue.plan(what, fault)
            services.start_import(link, by="tests")
            run_jobs()
            clock.tick(61)
            BrokerConnection.objects.update(status="active")
        run_jobs()
    ended = set(ImportRun.objects.values_list("state", "error"))
    assert ended == {("FAILED", "RIGHTS_MISSING"), ("FAILED", "BAD_ROW"), ("DONE", "")}
    services.rescore(link.user_id)
    run_jobs()
    assert BiasTag.objects.count() == 12
    end = week_of(now()).date()
    services.enqueue_digest(link.user_id, end - timedelta(days=7), end)
    services.simulate(link.user_id, Trade.objects.all()[0].pk, 7)
    Rule.objects.create(user=link.user, kind="minHoldHours", params={"hours": 24})
    run_jobs()
    boss = user("boss")
    boss.is_staff = boss.is_superuser = True
    boss.save()
    answers = answers_of_the_api(venue, link)
    pages = pages_of_the_admin(boss)
    told = json.dumps([event.payload for event in emitted()])
    output = capsys.readouterr()
    spans = "".join(span.to_json() for span in traces.get_finished_spans())
    assert "import.page" in spans and "score.trade" in spans
    places = {
        "database": everything_stored(), "pages": pages, "events": told, "log": caplog.text,
        "output": output.out + output.err, "redis": everything_in_redis(),
        "snapshots": snapshots(link.user_id), "traces": spans, "api": answers,
    }  # fmt: skip
    for secret in secrets:
        assert [name for name, text in places.items() if secret in text] == [], secret


def test_redaction_alters_no_id(venue: Coinbase, link: BrokerConnection) -> None:
    account = venue.accounts[str(link.key_name)]
    account.fills = [{**account.fills[0], "order_id": "52998224725"}]  # like a document number
    services.start_import(link, by="tests")
    run_jobs()
    [event] = emitted("coach.reflect")
    assert event.payload["orderId"] == "52998224725"
    assert event.payload["tradeId"] == str(Trade.objects.get().pk)


def test_redaction_alters_no_amount() -> None:
    owner, number = user("amounts"), "52998224725"
    trade(1, "BUY", "1", "0.000000000000000001", 1, owner=owner, fee="0.1")
    trade(2, "SELL", "1", "52998224725.100000000000000001", 2, owner=owner)
    client = Client()
    client.force_login(owner)
    rows = client.get("/api/v1/trading/trades").json()["data"]
    assert rows[0]["price"] == f"{number}.100000000000000001", "no float has touched it"
    assert f",{rows[0]['price']}," in client.get("/api/v1/trading/trades.csv").content.decode()
    end = WEEK.date() + timedelta(days=7)
    services.enqueue_digest(owner.pk, WEEK.date(), end)
    run_jobs()
    [digest] = client.get("/api/v1/trading/digests/weekly").json()
    assert digest["payload"]["profit"]["USD"]["total"] == number
    assert f'"{number}"' in snapshots(owner.pk)


def test_live_events_of_others_are_not_there(venue: Coinbase, link: BrokerConnection) -> None:
    services.start_import(link, by="tests")
    run_jobs()
    emitted()

    def page(name: str, **query: Any) -> Any:
        client = Client()
        client.force_login(user(name))
        return client.get("/internal/events", query)

    mine = page("trader").json()
    assert {one["type"] for one in mine["data"]} == {"import.progress", "coach.reflect"}
    ids = [one["eventId"] for one in mine["data"]]
    assert ids == sorted(ids) and set(mine["data"][0]) == {"type", "eventId", "ts", "v", "payload"}
    rest = page("trader", since=ids[3]).json()["data"]
    assert [one["eventId"] for one in rest] == ids[4:]
    assert page("other").json()["data"] == []
    assert page("trader", since=10**12).status_code == 410
    assert Client().get("/internal/events").status_code == 401
