"""Importing: paging, netting, conflicts, bad rows, cursors that fail, and being late."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from config.standins.trading import Coinbase, Fault
from config.standins.trading.market import fill
from jobs.testing import emitted, freeze_clock, lose_at_fence, run_jobs
from tests.trading.factories import user
from trading import importing, services
from trading.clock import now
from trading.errors import VenueError
from trading.fills import read_fill
from trading.models import BiasTag, BrokerConnection, ImportRun, Trade
from trading.payloads import (
    ImportJob,
    PlanImports,
    digest_key,
    import_key,
    score_key,
    simulation_key,
)

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def told(mark: str, minutes: int = 0, side: str = "BUY", **more: Any) -> dict[str, Any]:
    return fill(
        mark, "BTC-USD", side, "0.5", "60000.10", MONDAY + timedelta(minutes=minutes), **more
    )


def recent(mark: str, hours: int, **more: Any) -> dict[str, Any]:
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=hours)
    return fill(mark, "BTC-USD", "BUY", "0.5", "60000.10", at, **more)


def test_keys_are_those_of_the_contract() -> None:
    assert import_key(42, MONDAY + timedelta(hours=5), "coinbase").startswith("5deb5f2d41aecfb5")
    assert score_key(42, MONDAY).startswith("c3b4ac782ab87ef4")
    assert simulation_key(42, 7, 7).startswith("3d9713c35caa16c8")
    assert digest_key(42, MONDAY.date(), (MONDAY + timedelta(7)).date()).startswith("78df3ae66b8df")
    assert import_key(42, MONDAY) == score_key(42, MONDAY), "uniqueness is per kind"


@pytest.mark.parametrize(
    "change",
    [
        {"price": "NaN"}, {"price": "Infinity"}, {"price": "-1"}, {"price": 60000.1},
        {"size": "0"}, {"size": None}, {"side": "HOLD"}, {"trade_type": "GIFT"},
        {"trade_time": "yesterday"}, {"trade_time": "2026-01-05T00:00:00"}, {"entry_id": ""},
        {"entry_id": "x\x00"}, {"product_id": None}, {"commission": "1e99"}, {"order_id": 7},
    ],
)  # fmt: skip
def test_a_row_with_an_impossible_value_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(VenueError, match="BAD_ROW"):
        read_fill({**told("1"), **change})


@pytest.mark.parametrize("name", ["entry_id", "trade_id", "order_id", "price", "size", "side"])
def test_a_row_without_a_field_is_refused(name: str) -> None:
    row = told("1")
    del row[name]
    with pytest.raises(VenueError, match="BAD_ROW"):
        read_fill(row)


def test_a_size_in_quote_becomes_one_in_base() -> None:
    row = {**told("1"), "size": "30000.05", "size_in_quote": True}
    assert read_fill(row).qty == read_fill(told("1")).qty


FILLS = [
    told("1"), told("2", 5, trade_id="trade-a"), told("3", 6, side="SELL"),
    told("4", 5, trade_id="trade-a", trade_type="REVERSAL"),
    told("5", 9, trade_id="trade-b"), told("6", 9, trade_id="trade-b", trade_type="CORRECTION"),
    told("7", 9, trade_id="trade-c", trade_type="SYNTHETIC"),
]  # fmt: skip


class Netting(TestCase):
    """Whatever the order, the paging and the repetitions: the same trades count."""

    @given(st.randoms(use_true_random=False), st.integers(1, 4))
    @hypothesis(max_examples=40)
    def test_any_order_and_overlap_gives_the_same_trades(
        self, shuffler: random.Random, size: int
    ) -> None:
        owner = user("netting")
        Trade.objects.filter(user=owner).delete()
        rows = [*FILLS, *shuffler.sample(FILLS, 3)]
        shuffler.shuffle(rows)
        stored = 0
        for place in range(0, len(rows), size):
            page = [read_fill(row) for row in rows[place : place + size]]
            new, conflicts, _ = importing.upsert(owner.pk, "coinbase", page)
            stored += new
            assert conflicts == 0
        counted = Trade.objects.filter(user=owner, is_counted=True)
        assert stored == len(FILLS)
        assert set(counted.values_list("ext_id", flat=True)) == {
            "entry-1", "entry-3", "entry-6", "entry-7",
        }  # fmt: skip


@pytest.mark.django_db
def test_a_known_fill_with_other_values_keeps_its_own_and_is_a_conflict() -> None:
    owner = user()
    first, other = read_fill(told("1")), read_fill({**told("1"), "price": "1"})
    assert importing.upsert(owner.pk, "coinbase", [first])[:2] == (1, 0)
    assert importing.upsert(owner.pk, "coinbase", [other])[:2] == (0, 1)
    assert Trade.objects.get().price == first.price


def imported(link: BrokerConnection) -> ImportRun:
    job = services.start_import(link, by="tests")
    run_jobs()
    return ImportRun.objects.get(pk=job)


@pytest.mark.django_db(transaction=True)
class TestAgainstTheVenue:
    def test_a_bad_row_leaves_no_half_written_page(
        self, venue: Coinbase, link: BrokerConnection
    ) -> None:
        account = venue.accounts[str(link.key_name)]
        account.fills = [recent("1", 5), {**recent("2", 4), "price": "NaN"}]
        row = imported(link)
        assert (row.state, row.error, row.stored) == ("FAILED", "BAD_ROW", 0)
        assert Trade.objects.count() == 0

    def test_futures_are_skipped_and_counted(self, venue: Coinbase, link: BrokerConnection) -> None:
        account = venue.accounts[str(link.key_name)]
        account.fills = [recent("1", 5), {**recent("2", 4), "product_id": "BIT-28JUL23-CDE"}]
        row = imported(link)
        assert (row.state, row.fetched, row.stored, row.skipped) == ("DONE", 2, 1, 1)

    def test_a_reversal_takes_the_label_away(self, venue: Coinbase, link: BrokerConnection) -> None:
        account = venue.accounts[str(link.key_name)]
        account.fills = [recent("1", 30), recent("2", 29)]
        imported(link)
        assert BiasTag.objects.filter(is_current=True).count() == 2
        account.fills.append({**recent("3", 30), "trade_id": "trade-1", "trade_type": "REVERSAL"})
        imported(link)
        [tag] = BiasTag.objects.filter(is_current=True)
        assert tag.trade.ext_id == "entry-2" and Trade.objects.count() == 3

    def test_a_refused_cursor_begins_anew(self, venue: Coinbase, link: BrokerConnection) -> None:
        venue.page = 5
        refused = Fault(400, body='{"message": "invalid cursor"}')
        job = services.start_import(link, by="tests")
        venue.plan("fills", Fault(200, body=page_of(venue, link)), refused)
        run_jobs()
        row = ImportRun.objects.get(pk=job)
        assert (row.state, row.restarts, row.stored) == ("DONE", 1, 12)

    def test_pages_that_go_in_circles_are_an_error(
        self, venue: Coinbase, link: BrokerConnection
    ) -> None:
        circle = [
            Fault(200, body=f'{{"fills": [], "cursor": "{name}"}}') for name in "abcabcabcabc"
        ]
        venue.plan("fills", *circle)
        assert imported(link).error == "CURSOR_REPEATS"

    @pytest.mark.parametrize(
        ("fault", "error"),
        [
            (Fault(200, body="not json"), "BAD_PAGE"),
            (Fault(200, body="[]"), "BAD_PAGE"),
            (Fault(200, body='{"fills": {}}'), "BAD_PAGE"),
            (
                Fault(200, body='{"fills": [], "proof_token_required": true}'),
                "PROOF_TOKEN_REQUIRED",
            ),
            (Fault(400, body='{"error": "proof_token_required"}'), "PROOF_TOKEN_REQUIRED"),
            (Fault(404, body="secret words"), "VENUE_REFUSED"),
        ],
    )  # fmt: skip
    def test_bad_answers_have_a_named_error(
        self, venue: Coinbase, link: BrokerConnection, fault: Fault, error: str
    ) -> None:
        venue.plan("fills", fault)
        row = imported(link)
        assert (row.state, row.error) == ("FAILED", error)
        link.refresh_from_db()
        assert link.status == "active", "it is no matter of the key"

    def test_missing_rights_pause_the_link(self, venue: Coinbase, link: BrokerConnection) -> None:
        venue.accounts[str(link.key_name)].can_view = False
        assert imported(link).error == "RIGHTS_MISSING"
        link.refresh_from_db()
        assert (link.status, link.error) == ("paused", "RIGHTS_MISSING")

    def test_a_single_401_is_asked_again(self, venue: Coinbase, link: BrokerConnection) -> None:
        venue.plan("fills", Fault(401))
        assert imported(link).state == "DONE"

    def test_timeouts_never_pause_a_link(self, venue: Coinbase, link: BrokerConnection) -> None:
        venue.plan("fills", *[Fault(0) for _ in range(5)])
        with freeze_clock() as clock:
            job = services.start_import(link, by="tests")
            for _ in range(5):
                run_jobs()
                clock.tick(61)
        link.refresh_from_db()
        assert link.status == "active"
        assert ImportRun.objects.get(pk=job).error == "VENUE_AWAY"

    def test_ten_minutes_of_429_cost_no_attempt(
        self, venue: Coinbase, link: BrokerConnection
    ) -> None:
        venue.plan("fills", *[Fault(429, {"Retry-After": "120"}) for _ in range(5)])
        with freeze_clock() as clock:
            job = services.start_import(link, by="tests")
            for step in range(50):
                run_jobs()
                assert venue.count("fills") <= 1 + step * 15 // 120
                clock.tick(15)
        import jobs

        assert ImportRun.objects.get(pk=job).state == "DONE"
        assert jobs.get(job).failures == 0

    def test_a_day_of_429_fails_and_says_why(self, venue: Coinbase, link: BrokerConnection) -> None:
        venue.plan("fills", *[Fault(429, {"Retry-After": "86399"}) for _ in range(3)])
        with freeze_clock() as clock:
            job = services.start_import(link, by="tests")
            for _ in range(2):
                run_jobs()
                clock.tick(timedelta(hours=24, minutes=1))
            run_jobs()
        row = ImportRun.objects.get(pk=job)
        assert (row.state, row.error) == ("FAILED", "VENUE_LIMITED_FOR_A_DAY")

    def test_a_lost_lease_writes_nothing_and_the_next_attempt_all(
        self, venue: Coinbase, link: BrokerConnection
    ) -> None:
        venue.page = 5
        with lose_at_fence(ImportJob):
            services.start_import(link, by="tests")
            run_jobs()
        run_jobs()
        row = ImportRun.objects.get()
        assert (row.state, row.stored, Trade.objects.count()) == ("DONE", 12, 12)
        assert [e.payload["percent"] for e in emitted("import.progress")][-1] == 100

    def test_the_schedule_imports_every_active_link_and_rereads_once_a_week(
        self, venue: Coinbase, link: BrokerConnection
    ) -> None:
        import jobs

        venue.accounts[str(link.key_name)].fills = []
        days = []
        with freeze_clock() as clock:
            for _ in range(9):
                jobs.enqueue(PlanImports())
                run_jobs()
                newest = ImportRun.objects.order_by("-created_at")[0]
                days.append((newest.created_at - newest.since).days)
                clock.tick(timedelta(days=1))
        assert days[0] == days[7] == 30
        assert set(days[1:7]) | {days[8]} <= {1, 2}, "a day of overlap"
        link.is_daily = False
        link.save(update_fields=["is_daily"])
        before = ImportRun.objects.count()
        jobs.enqueue(PlanImports())
        run_jobs()
        assert ImportRun.objects.count() == before

    @pytest.mark.parametrize("is_read_again", [False, True])
    def test_a_link_that_was_paused_for_long_catches_up(
        self, venue: Coinbase, link: BrokerConnection, is_read_again: bool
    ) -> None:
        import jobs

        before = now() - timedelta(days=45)
        link.imported_at, link.reread_at = before, None if is_read_again else now()
        link.save(update_fields=["imported_at", "reread_at"])
        jobs.enqueue(PlanImports())
        run_jobs()
        row = ImportRun.objects.get()
        assert row.state == "DONE" and 1 <= (before - row.since).days <= 2

    def test_the_next_import_begins_where_a_long_one_had_begun(
        self, venue: Coinbase, link: BrokerConnection
    ) -> None:
        """Its first page has not seen what was traded while it waited."""
        venue.plan("fills", Fault(429, {"Retry-After": "72000"}))
        with freeze_clock() as clock:
            job = services.start_import(link, by="tests")
            run_jobs()
            clock.tick(timedelta(hours=23))
            run_jobs()
        row = ImportRun.objects.get(pk=job)
        link.refresh_from_db()
        assert row.state == "DONE" and link.imported_at == row.created_at


def page_of(venue: Coinbase, link: BrokerConnection) -> str:
    """The first five fills, with a cursor that the venue will refuse."""
    import json

    fills = venue.accounts[str(link.key_name)].fills
    return json.dumps({"fills": fills[-5:], "cursor": "bad"})
