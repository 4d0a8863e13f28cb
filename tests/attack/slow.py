"""How the time of something grows with its input."""

from __future__ import annotations

import time
from collections.abc import Callable

MOMENT = 3 * 0.75
"""Seconds that nothing a caller sends may take: 750 ms, on a machine three times slower."""
LEAST = 0.004
"""Seconds below which a growth cannot be told from noise."""


def seconds(act: Callable[[], object], times: int = 5, *, enough: float = 0.0) -> float:
    """Return the processor time of the shortest of some runs; one below ``enough`` is the last."""
    shortest = float("inf")
    for _ in range(times):
        begun = time.thread_time()
        act()
        shortest = min(shortest, time.thread_time() - begun)
        if shortest < enough:
            break
    return shortest


def growth(act: Callable[[str], object], part: str, size: int) -> tuple[float, float]:
    """How many times longer four times the size takes, and how many seconds that is.

    2.0 where it takes so little that nobody would notice.
    """
    large = (part * (4 * size // len(part) + 1))[: 4 * size]
    small = large[:size]
    long = seconds(lambda: act(large), enough=LEAST)
    if long < LEAST:
        return 2.0, long
    return long / max(seconds(lambda: act(small)), 1e-6), long


QUADRATIC = 10.0
"""Four times the size take four times as long in linear time, sixteen times in quadratic."""
