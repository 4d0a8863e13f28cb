"""From a venue's pages to labels and profit: only the fills decide, however they arrive."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

import jobs
import trading
from config.standins.trading import Coinbase, Fault, new_account
from config.standins.trading.market import LEVELS, Market
from jobs.testing import run_jobs
from tests.trading.factories import linked
from trading import digesting, ledger, limits, scoring, services
from trading.clock import now, week_of
from trading.models import BiasTag, BrokerConnection, ImportRun, Side, Trade
from trading.money import add, less, product, total

D = Decimal


def scaled(text: str, power: int) -> str:
    return f"{D(text) * D(2) ** power:f}"


class Scaled(Market):
    """A market whose prices are those of the plan times a power of two."""

    power = 0

    def candles(self, symbol: str, start: int, end: int) -> list[dict[str, str]]:
        prices = ("low", "high", "open", "close")
        return [
            {**row, **{name: scaled(row[name], self.power) for name in prices}}
            for row in super().candles(symbol, start, end)
        ]


def later(row: dict[str, Any], minutes: int) -> dict[str, Any]:
    """Return the fill as the venue has recorded it that much later."""
    at = datetime.fromisoformat(row["sequence_timestamp"]) + timedelta(minutes=minutes)
    return {**row, "sequence_timestamp": at.isoformat()}


def pool(market: Market) -> list[dict[str, Any]]:
    """The orders of the plan in two pieces each, some of them reversed or corrected."""
    rows = market.fills(per_order=2)
    for number, row in enumerate(rows):
        row["size"] = f"0.{17 + number}"
    first, twin, corrected = rows[6], rows[7], rows[8]
    twin |= {"trade_id": first["trade_id"], "size": first["size"]}  # either may be reversed
    newer, newest = (later(corrected, minutes) for minutes in (1, 2))
    rows += [
        {**first, "entry_id": "entry-back", "trade_type": "REVERSAL"},
        {**newer, "entry_id": "entry-newer", "trade_type": "CORRECTION", "size": "0.123456789"},
        {**newest, "entry_id": "entry-newest", "trade_type": "CORRECTION", "size": "0.11"},
    ]
    return rows


# An example takes a good part of a second, and shrinking one would take minutes.
patient = partial(
    hypothesis, phases=[Phase.explicit, Phase.reuse, Phase.generate], deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
POOL = 12 * 2 + 3
SCRIPTS = st.tuples(
    st.permutations(range(POOL)),
    st.lists(st.integers(0, POOL - 1), max_size=12),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(0, POOL),
)
"""An order of all fills, those that come again, the sizes of pages, and where an import ends."""


class Arrivals(TestCase):
    """Any paging, order, overlap and repetition, in any batches and units."""

    wanted: dict[str, Any] | None = None

    @pytest.fixture(autouse=True)
    def _desk(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        # The clock of the meter is real, and so many requests are more than a venue allows.
        wide = jobs.meter("trading:public:wide", "10000/s", burst=10_000)
        monkeypatch.setattr(limits, "public", wide)
        self.market = Scaled()
        self.venue = Coinbase(self.market).start()
        settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}
        settings.TRADING = {"COINBASE_URL": self.venue.url, "HEURISTICS_ONLY": True}
        yield
        self.venue.stop()

    def arrive(
        self, imports: list[list[list[dict[str, Any]]]], batch: int, power: int, name: str
    ) -> Any:
        """Import these pages, one import after the other; return what the trader sees."""
        cache.clear()
        self.market.power = power
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scoring, "BATCH", batch)
            link = linked(self.venue.add(new_account()), name)
            for pages in imports:
                cursors = [*(f"page-{n}" for n in range(1, len(pages))), ""]
                bodies = [
                    json.dumps({"fills": page, "cursor": cursor})
                    for page, cursor in zip(pages, cursors, strict=True)
                ]
                self.venue.plan("fills", *(Fault(200, body=body) for body in bodies))
                job = services.start_import(link, by="tests")
                run_jobs()
                run = ImportRun.objects.get(pk=job)
                assert (run.state, run.conflicts) == ("DONE", 0), run.error
        assert_sums(link)
        return shown(link, power)

    def check(self, script: Any, batch: int, power: int) -> None:
        order, again, sizes, cut = script
        rows = [
            {**row, "price": scaled(row["price"], power),
             "commission": scaled(row["commission"], power)}
            for row in pool(self.market)
        ]  # fmt: skip
        chosen = [rows[place] for place in (*order, *again)]
        imports = [paged(part, sizes) for part in (chosen[:cut], chosen[cut:])]
        found = self.arrive(imports, batch, power, "any")
        if self.wanted is None:
            type(self).wanted = self.arrive([[pool(self.market)]], 200, 0, "plain")
        assert self.wanted is not None
        assert found["trades"] == self.wanted["trades"]
        assert found["tags"] == self.wanted["tags"]
        if power == 0:
            assert found["weeks"] == self.wanted["weeks"]

    @given(SCRIPTS, st.integers(1, 9), st.integers(-3, 6))
    @patient(max_examples=5)
    def test_any_arrival_gives_the_same_trades_and_labels(
        self, script: Any, batch: int, power: int
    ) -> None:
        self.check(script, batch, power)

    @given(SCRIPTS, st.integers(1, 9))
    @patient(max_examples=3)
    def test_any_arrival_gives_the_same_profit(self, script: Any, batch: int) -> None:
        self.check(script, batch, 0)

    @pytest.mark.soak
    @given(SCRIPTS, st.integers(1, 30), st.integers(-8, 12))
    @patient(max_examples=150)
    def test_many_arrivals_give_the_same(self, script: Any, batch: int, power: int) -> None:
        self.check(script, batch, power)


def paged(rows: list[dict[str, Any]], sizes: list[int]) -> list[list[dict[str, Any]]]:
    """Cut the rows into pages of these sizes, in turns; there is at least one page."""
    pages: list[list[dict[str, Any]]] = []
    place = 0
    while place < len(rows):
        size = sizes[len(pages) % len(sizes)]
        pages.append(rows[place : place + size])
        place += size
    return pages or [[]]


def shown(link: BrokerConnection, power: int) -> dict[str, Any]:
    """Trades in the units of the plan, current labels, and the figures of every week."""
    trades = {
        row.ext_id: (row.is_counted, row.side, row.qty, row.price / D(2) ** power, row.ts)
        for row in Trade.objects.filter(user_id=link.user_id)
    }
    tags = {
        tag.trade.ext_id: (tag.label, tag.confidence, tag.features, tag.insight)
        for tag in BiasTag.objects.filter(user_id=link.user_id, is_current=True).select_related(
            "trade"
        )
    }
    monday = week_of(now()).date()
    weeks = []
    for number in range(7):
        start = monday - timedelta(days=7 * number)
        figures = digesting.aggregate(link.user_id, start, start + timedelta(days=7))
        for sale in figures["unmatchedSales"]:
            del sale["tradeId"]  # a number of this database
        weeks.append(figures)
    assert set(tags) == {name for name, trade in trades.items() if trade[0]}
    return {"trades": trades, "tags": tags, "weeks": weeks}


def assert_sums(link: BrokerConnection) -> None:
    """Profit is cash flow and market value, to the last digit, and its parts are the whole."""
    rows = list(Trade.objects.filter(user_id=link.user_id))
    realised: dict[str, Decimal] = defaultdict(lambda: D(0))
    for symbol in LEVELS:
        counted = [row for row in rows if row.symbol == symbol and row.is_counted]
        found = ledger.match(counted)
        close = D("61234.567891")
        cash = total(
            less(product(row.qty, row.price), row.fee) if row.side == Side.SELL
            else less(D(0), add(product(row.qty, row.price), row.fee))
            for row in counted
        )  # fmt: skip
        of_pieces = total(piece.profit for piece in found.pieces)
        of_open = total(less(product(lot.left, close), lot.cost_left) for lot in found.open)
        # What was sold without a known buy has brought cash, and no profit.
        unknown = total(
            less(
                less(product(sale.qty, sale.price), sale.fee),
                total(piece.proceeds for piece in found.pieces if piece.sell is sale),
            )
            for sale, _ in found.unmatched
        )
        held = product(total(lot.left for lot in found.open), close)
        assert add(of_pieces, of_open) == less(add(cash, held), unknown)
        realised["USD"] = add(realised["USD"], of_pieces)
    monday = week_of(now()).date()
    in_weeks = D(0)
    for number in range(9):
        start = monday - timedelta(days=7 * number)
        figures = digesting.aggregate(link.user_id, start, start + timedelta(days=7))
        for one in figures["profit"].values():
            assert total(map(D, one["byLabel"].values())) == D(one["total"])
            in_weeks = add(in_weeks, D(one["total"]))
    assert in_weeks == realised["USD"]


EXACT = ("money", "fills", "ledger", "simulating", "digesting", "importing")
"""Modules through which amounts go."""


@pytest.mark.parametrize("name", EXACT)
def test_no_float_touches_money(name: str) -> None:
    source = (Path(trading.__file__).parent / f"{name}.py").read_text()
    found = [
        node.lineno for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Name) and node.id == "float")
        or (isinstance(node, ast.Constant) and isinstance(node.value, float))
    ]  # fmt: skip
    assert found == []
