"""Amounts: decimals from the venue's text to the database, never floats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import reduce

PLACES = 18
DIGITS = 38
CONTEXT = Context(prec=60, rounding=ROUND_HALF_EVEN)
"""Wide enough that sums and products of stored amounts are exact."""
ZERO = Decimal(0)
_QUANTUM = Decimal(1).scaleb(-PLACES)
_LARGEST = Decimal(10) ** (DIGITS - PLACES)
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,2})?\Z", re.ASCII)


def amount(text: object) -> Decimal:
    """Return the decimal that a venue has written; raise ValueError for anything else."""
    if not isinstance(text, str) or not _NUMBER.match(text):
        raise ValueError("is no decimal number")
    try:
        found = Decimal(text).quantize(_QUANTUM, context=CONTEXT)
    except InvalidOperation:
        raise ValueError("is no decimal number") from None
    if abs(found) >= _LARGEST:
        raise ValueError("is too large")
    return found


def divide(one: Decimal, other: Decimal) -> Decimal:
    """Return the quotient to the places that are stored."""
    return CONTEXT.divide(one, other).quantize(_QUANTUM, context=CONTEXT)


def add(one: Decimal, other: Decimal) -> Decimal:
    """Return the exact sum."""
    return CONTEXT.add(one, other)


def less(one: Decimal, other: Decimal) -> Decimal:
    """Return the exact difference."""
    return CONTEXT.subtract(one, other)


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of all."""
    return reduce(add, amounts, ZERO)


def product(one: Decimal, other: Decimal) -> Decimal:
    """Return the exact product."""
    return CONTEXT.multiply(one, other)


def rounded(value: Decimal) -> Decimal:
    """Return the value with the places that are stored."""
    return value.quantize(_QUANTUM, context=CONTEXT)


def text(value: Decimal) -> str:
    """Return the amount without trailing zeros and without an exponent."""
    shown = f"{value:f}"
    shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
    return "0" if shown in ("-0", "") else shown
