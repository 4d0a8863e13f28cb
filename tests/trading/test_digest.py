"""Digests: what they count, once, and that nothing unchanged is told."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

import jobs
from jobs import blobs
from jobs.testing import emitted, run_jobs
from tests.trading.factories import WEEK, trade, user
from trading import digesting, services
from trading.models import BiasTag, Digest, RuleBreak, Trade
from trading.payloads import DigestJob

pytestmark = pytest.mark.django_db
START, END = WEEK.date(), (WEEK + timedelta(days=7)).date()


def tagged(row: Trade, label: str) -> Trade:
    BiasTag.objects.create(
        user_id=row.user_id, trade=row, label=label, confidence=Decimal("0.8"), source="ai",
        rules_version="v1",
    )  # fmt: skip
    return row


def test_the_figures_of_a_week() -> None:
    owner = user()
    tagged(trade(1, "BUY", "1", "100", -100, owner=owner), "FOMO")
    tagged(trade(2, "BUY", "1", "200", 1, owner=owner, fee="1"), "FOMO")
    tagged(trade(3, "BUY", "0.5", "201", 1.1, owner=owner, order_id="o2"), "NEUTRAL")
    tagged(trade(4, "SELL", "1", "150", 5, owner=owner, fee="2"), "PANIC")
    tagged(trade(5, "SELL", "1", "250", 30, owner=owner), "NEUTRAL")
    late = tagged(trade(6, "BUY", "1", "1", 7 * 24, owner=owner), "DISCIPLINE")
    RuleBreak.objects.create(
        user=owner, trade=Trade.objects.get(ext_id="e4"), kind="minHoldHours", figure="1"
    )
    found = digesting.aggregate(owner.pk, START, END)
    assert found["orders"] == 3, "an order counts once, and not what comes later"
    assert found["counts"] == {
        "FOMO": 1, "PANIC": 1, "DISCIPLINE": 0, "NEUTRAL": 1, "UNLABELLED": 0,
    }  # fmt: skip
    assert found["profit"] == {
        "USD": {"byLabel": {"FOMO": "49", "PANIC": "48"}, "total": "97"}
    }  # 150 - 2 - 100 of the panic sale, 250 - 201 of the other
    assert found["realised"] == {"pieces": 2, "wins": 2, "winRate": "1.0000"}
    assert found["fees"] == {"USD": "3"}
    assert found["streaks"] == {"FOMO": 1, "NEUTRAL": 1, "PANIC": 1}
    assert found["rulesBroken"] == {"minHoldHours": 1}
    assert found["suggestion"]["code"] == "KEEP_YOUR_RULES"
    assert late.ts == WEEK + timedelta(days=7)


def test_currencies_are_never_added() -> None:
    owner = user()
    for number, quote in enumerate(("USD", "EUR")):
        symbol: dict[str, Any] = {"symbol": f"BTC-{quote}", "quote": quote, "fee_asset": quote}
        trade(number * 2 + 1, "BUY", "1", "100", 1, owner=owner, **symbol)
        trade(number * 2 + 2, "SELL", "1", "90", 2, owner=owner, **symbol)
    found = digesting.aggregate(owner.pk, START, END)
    assert {quote: one["total"] for quote, one in found["profit"].items()} == {
        "USD": "-10", "EUR": "-10",
    }  # fmt: skip


def test_an_empty_week_has_a_digest_too() -> None:
    found = digesting.aggregate(user().pk, START, END)
    assert (found["orders"], found["realised"]["winRate"], found["profit"]) == (0, None, {})


def test_a_second_digest_overwrites_and_is_told_only_if_it_differs() -> None:
    owner = user()
    trade(1, "BUY", "1", "100", 1, owner=owner)
    for _ in range(2):
        services.enqueue_digest(owner.pk, START, END)
        run_jobs()
    [row] = Digest.objects.all()
    assert row.storage_key == f"digests/{owner.pk}/2026-01-05-2026-01-12.json"
    assert len(emitted("digest.ready")) == 1
    trade(2, "BUY", "1", "100", 2, owner=owner)
    services.enqueue_digest(owner.pk, START, END)
    run_jobs()
    assert len(emitted("digest.ready")) == 2
    with blobs.store().read(row.storage_key) as pieces:
        stored = b"".join(pieces)
    row.refresh_from_db()
    assert json.loads(stored) == row.payload
    import hashlib

    assert hashlib.sha256(stored).hexdigest() == row.sha256


@pytest.mark.parametrize(
    ("start", "end"), [("2026-01-06", "2026-01-13"), ("2026-01-05", "2026-01-11"), ("x", "y")]
)
def test_a_period_is_a_week_from_monday(start: str, end: str) -> None:
    with pytest.raises(ValueError, match="period"):
        DigestJob(userId=1, periodStart=start, periodEnd=end)


def test_a_digest_of_another_user_is_refused() -> None:
    jobs.enqueue(
        DigestJob(userId=user("a").pk, periodStart="2026-01-05", periodEnd="2026-01-12"),
        tenant=f"user:{user('b').pk}",
    )
    assert run_jobs().failed == 1 and not Digest.objects.exists()
