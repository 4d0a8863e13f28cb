"""What belongs together: buys and the sales that follow, first in, first out.

A ledger is of one user, venue and symbol. Amounts are exact decimals of the quote currency.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from trading.models import Side, Trade
from trading.money import ZERO, add, divide, less, product


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a buy that a sale has sold."""

    buy: Trade
    sell: Trade
    qty: Decimal
    cost: Decimal
    """With its share of the buy's fee."""
    proceeds: Decimal
    """Less its share of the sale's fee."""

    @property
    def profit(self) -> Decimal:
        """Return what the piece has brought."""
        return less(self.proceeds, self.cost)


@dataclass(slots=True)
class Lot:
    """What is left of a buy."""

    buy: Trade
    size: Decimal
    cost: Decimal
    left: Decimal
    cost_left: Decimal


@dataclass(slots=True)
class Ledger:
    """Realised pieces, what is still held, and sales of what was never bought."""

    pieces: list[Piece] = field(default_factory=list)
    open: list[Lot] = field(default_factory=list)
    unmatched: list[tuple[Trade, Decimal]] = field(default_factory=list)


def in_order(trades: Iterable[Trade]) -> list[Trade]:
    """Return the trades that count, in the order in which the venue executed them."""
    found = (trade for trade in trades if trade.is_counted)
    return sorted(found, key=lambda trade: (trade.ts, trade.sequence, trade.ext_id))


def fee_in(trade: Trade, asset: str) -> Decimal:
    """Return the fee if it was taken in this asset, otherwise 0."""
    return trade.fee if trade.fee_asset == asset else ZERO


def received(buy: Trade) -> Decimal:
    """Return how much of the base asset a buy has brought."""
    return less(buy.qty, fee_in(buy, buy.base))


def paid(buy: Trade) -> Decimal:
    """Return what a buy has cost."""
    return add(product(buy.qty, buy.price), fee_in(buy, buy.quote))


def match(trades: Iterable[Trade]) -> Ledger:
    """Match the sales of one symbol with the oldest buys before them."""
    ledger, lots = Ledger(), deque[Lot]()
    for trade in in_order(trades):
        if trade.side == Side.BUY:
            size, cost = received(trade), paid(trade)
            if size > ZERO:
                lots.append(Lot(trade, size, cost, size, cost))
        else:
            _sell(trade, lots, ledger)
    ledger.open = list(lots)
    return ledger


def _sell(sale: Trade, lots: deque[Lot], ledger: Ledger) -> None:
    whole = add(sale.qty, fee_in(sale, sale.base))
    worth = less(product(sale.qty, sale.price), fee_in(sale, sale.quote))
    left, worth_left = whole, worth
    while left > ZERO and lots:
        lot = lots[0]
        part = min(left, lot.left)
        # The last piece of a lot, and of a sale, takes what rounding has left.
        cost = lot.cost_left if part == lot.left else _share(lot.cost, part, lot.size)
        proceeds = worth_left if part == left else _share(worth, part, whole)
        ledger.pieces.append(Piece(lot.buy, sale, part, cost, proceeds))
        left, worth_left = less(left, part), less(worth_left, proceeds)
        lot.left, lot.cost_left = less(lot.left, part), less(lot.cost_left, cost)
        if lot.left == ZERO:
            lots.popleft()
    if left > ZERO:
        ledger.unmatched.append((sale, left))


def _share(amount: Decimal, part: Decimal, whole: Decimal) -> Decimal:
    return divide(product(amount, part), whole)


def rebuys(trades: Iterable[Trade]) -> list[tuple[Trade, Trade, Decimal]]:
    """Match each sale with the buys after it: (sale, buy, quantity), each piece once."""
    found: list[tuple[Trade, Trade, Decimal]] = []
    waiting = deque[tuple[Trade, Decimal]]()
    for trade in in_order(trades):
        if trade.side == Side.SELL:
            waiting.append((trade, trade.qty))
            continue
        left = received(trade)
        while left > ZERO and waiting:
            sale, wanted = waiting.popleft()
            part = min(left, wanted)
            found.append((sale, trade, part))
            left = less(left, part)
            if part < wanted:
                waiting.appendleft((sale, less(wanted, part)))
    return found
