"""Reads of operators: short ones, or a clear error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.db import OperationalError, transaction

from jobs.engine import sql
from jobs.errors import TooSlow

SECONDS = 3.0
"""So long may one statement of an operator's read take."""
MOST = 10_000
"""Counts stop here."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are, or that there are more than that."""

    value: int
    capped: bool = False

    def __str__(self) -> str:
        if not self.capped:
            return str(self.value)
        return f"{self.value // 1000}k+" if self.value >= 1000 else f"{self.value}+"


def count(found: int, most: int = MOST) -> Count:
    """What was counted with one more than ``most`` as its limit."""
    return Count(min(found, most), found > most)


@contextmanager
def bounded(seconds: float = SECONDS) -> Iterator[None]:
    """Statements of the block read; one that takes too long raises TooSlow, and nothing is broken.

    Inside somebody's transaction the timeout before is in force again afterwards; inside another
    block that is bounded as tightly that one's holds.
    """
    if _held.get() <= seconds:
        yield  # within a block that is bounded as tightly already
        return
    inside = sql.connection().in_atomic_block
    token = _held.set(seconds)
    try:
        with transaction.atomic(using=sql.alias()):
            if not inside:
                sql.run("SET TRANSACTION READ ONLY")
            [before] = sql.rows(_SET, [f"{seconds * 1000:.0f}", "off"])
            yield
            if inside:
                sql.rows(_SET, before[:2])
    except OperationalError as error:
        if sql.sqlstate(error) == "57014":
            raise TooSlow(seconds) from error
        raise
    finally:
        _held.reset(token)


_held: ContextVar[float] = ContextVar("jobs_bounded", default=math.inf)
# The subselect is there so that the values are read before they are set. What an operator asks of
# a million jobs seems expensive enough to be compiled, which takes longer than the answer.
_SET = """
SELECT s.*, set_config('statement_timeout', %s, true), set_config('jit', %s, true)
FROM (SELECT current_setting('statement_timeout'), current_setting('jit') OFFSET 0) s
"""
