"""First in, first out: pieces sum to the whole, and money is exact."""

from __future__ import annotations

import random
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tests.trading.factories import trade
from trading.ledger import match, rebuys
from trading.models import Trade
from trading.money import add, less, product, total

AMOUNT = st.decimals("0.00000001", "50000", places=8)
PRICE = st.decimals("0.000001", "90000", places=6)
FEE = st.decimals("0", "1", places=8)
FILLS = st.lists(
    st.tuples(st.sampled_from(["BUY", "SELL"]), AMOUNT, PRICE, FEE, st.booleans()), max_size=25
)


def made(rows: list[tuple[str, Decimal, Decimal, Decimal, bool]]) -> list[Trade]:
    return [
        trade(
            n, side, str(qty), str(price), n, saved=False,
            fee=str(min(fee, qty / 2) if in_base else fee), fee_asset="BTC" if in_base else "USD",
        )
        for n, (side, qty, price, fee, in_base) in enumerate(rows, start=1)
    ]  # fmt: skip


def of(side: str, trades: list[Trade]) -> list[Trade]:
    return [one for one in trades if one.side == side]


@given(FILLS)
def test_profit_is_cash_flow_and_what_is_held(
    rows: list[tuple[str, Decimal, Decimal, Decimal, bool]],
) -> None:
    trades = made(rows)
    found = match(trades)
    paid = total(
        add(product(b.qty, b.price), b.fee if b.fee_asset == "USD" else Decimal(0))
        for b in of("BUY", trades)
    )
    held = total(lot.cost_left for lot in found.open)
    # Every cent that was paid is in a piece or still held.
    assert add(total(piece.cost for piece in found.pieces), held) == paid
    for sale in of("SELL", trades):
        pieces = [piece for piece in found.pieces if piece.sell is sale]
        whole = add(sale.qty, sale.fee if sale.fee_asset == "BTC" else Decimal(0))
        left = next((n for s, n in found.unmatched if s is sale), Decimal(0))
        assert add(total(piece.qty for piece in pieces), left) == whole
        if not left and pieces:
            fee = sale.fee if sale.fee_asset == "USD" else Decimal(0)
            assert total(p.proceeds for p in pieces) == less(product(sale.qty, sale.price), fee)


@given(FILLS, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    rows: list[tuple[str, Decimal, Decimal, Decimal, bool]], shuffler: random.Random
) -> None:
    trades = made(rows)
    mixed = list(trades)
    shuffler.shuffle(mixed)

    def shown(given: list[Trade]) -> list[tuple[str, str, Decimal, Decimal, Decimal]]:
        pieces = match(given).pieces
        return [(p.buy.ext_id, p.sell.ext_id, p.qty, p.cost, p.proceeds) for p in pieces]

    assert shown(mixed) == shown(trades)
    assert rebuys(mixed) == rebuys(trades)


@given(FILLS)
def test_a_rebuy_serves_each_piece_once(
    rows: list[tuple[str, Decimal, Decimal, Decimal, bool]],
) -> None:
    trades = made(rows)
    found = rebuys(trades)
    for one in trades:
        if one.side == "SELL":
            assert total(part for sale, _, part in found if sale is one) <= one.qty
        else:
            brought = less(one.qty, one.fee if one.fee_asset == "BTC" else Decimal(0))
            assert total(part for _, buy, part in found if buy is one) <= brought
    assert all(sale.ts < buy.ts for sale, buy, _ in found)


def test_a_fee_in_the_base_asset_reduces_the_lot() -> None:
    trades = [
        trade(1, "BUY", "1", "100", 0, fee="0.1", fee_asset="BTC", saved=False),
        trade(2, "SELL", "0.8", "120", 1, fee="0.1", fee_asset="BTC", saved=False),
    ]
    found = match(trades)
    [piece] = found.pieces
    assert [piece.qty, piece.cost, piece.proceeds] == [Decimal("0.9"), Decimal(100), Decimal(96)]
    assert found.open == []


def test_ties_go_by_the_venues_sequence() -> None:
    sale = trade(1, "SELL", "1", "110", 0, saved=False, sequence="2")
    buy = trade(2, "BUY", "1", "100", 0, saved=False, sequence="1")
    assert len(match([sale, buy]).pieces) == 1


def test_a_sale_of_what_was_never_bought_is_not_invented() -> None:
    found = match([trade(1, "SELL", "1", "110", saved=False)])
    assert found.pieces == [] and found.unmatched[0][1] == 1


def test_the_last_piece_takes_what_rounding_leaves() -> None:
    trades = [trade(1, "BUY", "3", "0.333333333333333333", 0, fee="0.01", saved=False)]
    trades += [trade(n, "SELL", "1", "1", n, saved=False) for n in (2, 3, 4)]
    found = match(trades)
    assert total(p.cost for p in found.pieces) == Decimal("1.009999999999999999")
