"""The trading coach: importing, storing, labels on sockets, comparisons, figures and digests."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from benchmarks import traders
from benchmarks.bench import Bench
from benchmarks.result import Check, Result, quantile, spread

WEEK = date(2026, 1, 5)


def imports(b: Bench) -> Result:
    """500 fills each, in two pages, from the enqueuing to the last commit."""
    from trading import services
    from trading.models import ImportRun, ScoreRun

    count = 2 if b.quick else 30
    took: list[float] = []
    with traders.desk(b, "q_import", "q_score") as desk, b.watching() as seen:
        for _ in range(count):
            link = desk.trader(42)
            began = time.monotonic()
            job = services.start_import(link, by="bench")
            runs = ImportRun.objects.filter(pk=job)
            traders.until(lambda runs=runs: runs.filter(state="DONE").exists(), b)  # type: ignore[misc]
            took.append(time.monotonic() - began)
            row = runs.get()
            if (row.stored, row.conflicts) != (traders.FILLS, 0):
                raise RuntimeError(f"{row.stored} fills were stored, {row.conflicts} in conflict")
            scores = ScoreRun.objects.filter(user_id=link.user_id, state="DONE")
            traders.until(lambda scores=scores: scores.exists(), b)  # type: ignore[misc]
    ours = {**spread(took), **seen}
    checks = [Check("p95 of importing 500 fills", ours["p95_ms"], 60_000, 5000, True, " ms")]
    return Result({"jobdesk": ours}, checks)


def storing(b: Bench) -> Result:
    """A page of 250 fills, stored as imports do it, and row by row, in turns."""
    from django.db import transaction

    from trading import importing
    from trading.fills import Fill, read_fill
    from trading.models import Trade

    rounds = 2 if b.quick else 20
    with traders.venue() as venue:
        page = [read_fill(row) for row in venue.market.fills(21)][:250]

    def row_by_row(user: int, fills: Sequence[Fill]) -> None:
        names = importing._COLUMNS
        for fill in fills:
            Trade.objects.update_or_create(
                user_id=user, broker="coinbase", ext_id=fill.ext_id,
                defaults={name: getattr(fill, name) for name in names},
            )  # fmt: skip

    def as_imports_do(user: int, fills: Sequence[Fill]) -> None:
        importing.upsert(user, "coinbase", list(fills))

    took: dict[str, list[float]] = {"jobdesk": [], "row_by_row": []}
    with b.watching() as seen:
        for number in range(rounds):
            both = [("jobdesk", as_imports_do), ("row_by_row", row_by_row)]
            for name, store in both if number % 2 else reversed(both):
                user = traders.new_user(f"{name}-{number}")
                began = time.monotonic()
                with transaction.atomic():
                    store(user, page)
                took[name].append(time.monotonic() - began)
                if Trade.objects.filter(user_id=user).count() != len(page):
                    raise RuntimeError(f"{name} has not stored the page")
    figures: dict[str, dict[str, Any]] = {
        name: {"rate": round(len(page) * rounds / sum(times), 1), **spread(times)}
        for name, times in took.items()
    }
    figures["jobdesk"] |= seen
    ratio = round(figures["jobdesk"]["rate"] / figures["row_by_row"]["rate"], 2)
    return Result(figures, [Check("x row by row", ratio, 3)], ratio)


def reflections(b: Bench) -> Result:
    """From the writing of a label until the user's socket has received it."""
    from trading import services

    rounds, per_order = (1, 2) if b.quick else (8, 10)
    delays: list[float] = []
    with traders.desk(b, "q_import", "q_score") as desk, b.watching() as seen:
        for _ in range(rounds):
            link = desk.trader(per_order)
            with traders.live(desk.port, link.user_id) as socket:
                services.start_import(link, by="bench")
                left = 12 * per_order
                while left:
                    told = json.loads(socket.recv(120))
                    if told["type"] == "coach.reflect":
                        delays.append(time.time() - _seconds(told["ts"]))
                        left -= 1
    ours = {**spread(delays), **seen}
    checks = [
        Check("label to socket, median", ours["p50_ms"], 1500, 300, True, " ms"),
        Check("label to socket, p95", ours["p95_ms"], 3000, 1000, True, " ms"),
    ]
    return Result({"jobdesk": ours}, checks)


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def simulations(b: Bench) -> Result:
    """A week of hours compared with holding, from the request until it is stored.

    Warm with the candles in the cache, cold without any.
    """
    from django.core.cache import cache

    from jobs import Job
    from trading import importing, services
    from trading.fills import read_fill
    from trading.models import Simulation, Trade

    count = 5 if b.quick else 60
    took: dict[str, list[float]] = {"cold": [], "warm": []}
    with traders.desk(b, "q_sim") as desk, b.watching() as seen:
        link = desk.trader(1)
        fills = [read_fill(row) for row in desk.venue.market.fills()]
        importing.upsert(link.user_id, "coinbase", fills)
        trades = list(Trade.objects.filter(user_id=link.user_id).order_by("ts"))
        for number in range(count):
            for state, times in took.items():
                Simulation.objects.filter(user_id=link.user_id).delete()
                if state == "cold":
                    cache.clear()
                trade = trades[number % len(trades)]
                began = time.monotonic()
                asked = services.simulate(link.user_id, trade.pk, 7)
                rows = Simulation.objects.filter(pk=asked.row.pk, fresh_until__isnull=False)
                traders.until(lambda rows=rows: rows.exists(), b)  # type: ignore[misc]
                times.append(time.monotonic() - began)
                # Until its job has ended, the same comparison would be the same job.
                job = Job.objects.filter(pk=str(asked.job_id), state="succeeded")
                traders.until(lambda job=job: job.exists(), b)  # type: ignore[misc]
    warm, cold = spread(took["warm"]), spread(took["cold"])
    checks = [
        Check("p95 of a comparison, candles cached", warm["p95_ms"], 1000, 100, True, " ms"),
        Check("p95 of a comparison, nothing cached", cold["p95_ms"], 3000, None, True, " ms"),
    ]
    return Result({"jobdesk": {**warm, **seen}, "jobdesk_cold": cold}, checks)


def indicators(b: Bench) -> Result:
    """A thousand candles through ``/ai/v1/indicators``, signed; and the figures alone."""
    import httpx

    from trading.ai import signatures
    from trading.ai.indicators import compute

    count = 10 if b.quick else 200
    rows = _walk(1000)
    names = ("ts", "open", "high", "low", "close", "volume")
    candles = [dict(zip(names, row, strict=True)) for row in rows]
    body = json.dumps(
        {"series": {"symbol": "BTC-USD", "granularity": "1h", "candles": candles}}
    ).encode()
    highs, lows, closes = ([row[place] for row in rows] for place in (2, 3, 4))
    asked: list[float] = []
    alone: list[float] = []
    with traders.desk(b, "q_score") as desk, httpx.Client() as client, b.watching() as seen:
        for number in range(count + 5):
            headers = signatures.headers(traders.AI_KEY, traders.AI_SECRET, body)
            began = time.monotonic()
            answer = client.post(
                f"http://127.0.0.1:{desk.port}/ai/v1/indicators", content=body, headers=headers
            )
            took = time.monotonic() - began
            if answer.status_code != 200 or len(answer.json()["rsi"]) != 1000:
                raise RuntimeError(f"the service answered {answer.status_code}")
            began = time.monotonic()
            compute(highs, lows, closes)
            if number >= 5:  # the first ones import what they need
                asked.append(took)
                alone.append(time.monotonic() - began)
            time.sleep(0.05)  # a key may ask thirty times a second
    ours = {**spread(asked), **seen}
    checks = [Check("p95 of indicators, 1 000 candles", ours["p95_ms"], 50, 30, True, " ms")]
    return Result({"jobdesk": ours, "jobdesk_compute": spread(alone)}, checks)


def _walk(count: int) -> list[tuple[int, float, float, float, float, float]]:
    noise, price, found = random.Random(7), 60_000.0, []
    for number in range(count):
        opening = price
        price *= 1 + noise.uniform(-0.01, 0.01)
        high, low = max(opening, price) * 1.001, min(opening, price) * 0.999
        found.append((3600 * number, opening, high, low, price, 12.5))
    return found


def digests(b: Bench) -> Result:
    """A digest for each of 1 000 users with 200 trades, one at a time; and the worker's memory."""
    from jobs import Job
    from trading import services

    users = 10 if b.quick else 1000
    ids = _stored(users, 200)
    end = WEEK + timedelta(days=7)
    sizes: list[float] = []
    with traders.desk(b, "q_digest", slots=1) as desk, b.watching() as seen:
        assert desk.processes is not None
        for user in ids:
            services.enqueue_digest(user, WEEK, end)
        done = Job.objects.filter(kind="digest.weekly", state="succeeded")
        for share in range(1, 11):
            wanted = users * share // 10
            traders.until(lambda wanted=wanted: done.count() >= wanted, b, 60 + users)  # type: ignore[misc]
            sizes.append(desk.processes.pss_mb()[0])
        moments = done.values_list("started_at", "finished_at")
        times = [(ended - began).total_seconds() for began, ended in moments if began and ended]
    ours = {
        **spread(times), "rate": round(users / sum(times), 1), "mb": round(sizes[-1], 1),
        "grown_mb": round(max(sizes[1:]) - sizes[0], 1), **seen,
    }  # fmt: skip
    slowest = round(quantile(times, 1.0), 3)
    checks = [
        Check("slowest digest of 200 trades", slowest, 5, 1, True, " s"),
        Check("memory grown meanwhile", ours["grown_mb"], 20, None, True, " MB"),
    ]
    return Result({"jobdesk": ours}, checks)


def _stored(users: int, each: int) -> list[int]:
    """Store labelled trades of that many new users within the week; return the users."""
    from django.contrib.auth.models import User

    from trading.models import BiasTag, Label, Trade

    chance = random.Random(7)
    people = User.objects.bulk_create(User(username=f"bench-{n}") for n in range(users))
    begin = datetime(WEEK.year, WEEK.month, WEEK.day, tzinfo=UTC)
    step = timedelta(days=7) / (each + 1)
    for person in people:
        made = Trade.objects.bulk_create(
            Trade(
                user=person, broker="coinbase", ext_id=f"e{n}", trade_id=f"t{n}",
                order_id=f"o{n // 2}", symbol="BTC-USD", base="BTC", quote="USD",
                side="SELL" if n % 3 == 2 else "BUY", type="FILL", qty=Decimal("0.5"),
                price=Decimal(chance.randrange(50_000, 70_000)), fee=Decimal("1.25"),
                fee_asset="USD", ts=begin + step * n, sequence=f"{n:08d}",
            )
            for n in range(each)
        )  # fmt: skip
        BiasTag.objects.bulk_create(
            BiasTag(
                user=person, trade=trade, label=chance.choice(Label.values),
                confidence=Decimal("0.8"), source="ai", rules_version="v1",
            )
            for trade in made
        )  # fmt: skip
    return [person.pk for person in people]
