"""Amounts: decimals, rounded half up to cents, once, at the end of a calculation."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")
HUNDRED = Decimal(100)


def rounded(amount: Decimal) -> Decimal:
    """Round half up to cents."""
    return amount.quantize(CENT, ROUND_HALF_UP)


def line(price: Decimal, quantity: Decimal, discount: Decimal) -> Decimal:
    """Return the exact amount of a line."""
    return price * quantity * (1 - discount / HUNDRED)


def total(lines: Iterable[Decimal], discount: Decimal) -> Decimal:
    """Return the total of the lines after the discount of the whole order."""
    return rounded(sum(lines, Decimal(0)) * (1 - discount / HUNDRED))
