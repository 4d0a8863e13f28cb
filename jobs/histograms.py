"""Durations in buckets: counted where they happen, added up anywhere, read as quantiles later.

Pure functions; nothing here asks the database.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

BOUNDS = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    900.0,
    3600.0,
)
"""Upper ends of the buckets, in seconds; one more bucket takes what is longer.

They are stored with what was counted: other bounds need a migration of the rows.
"""
SIZE = len(BOUNDS) + 1


def bucket_of(seconds: float) -> int:
    """The number of the bucket, from 0, into which the duration falls."""
    return bisect_left(BOUNDS, seconds)


def quantile(buckets: Sequence[int], share: float, longest: float) -> float | None:
    """The estimated duration that this share of the counted ones does not exceed; None of none.

    Within a bucket the durations are taken to be spread evenly, and none is longer than the
    longest.
    """
    total = sum(buckets)
    if not total:
        return None
    wanted, below = share * total, 0
    for number, count in enumerate(buckets):
        if count and below + count >= wanted:
            low = BOUNDS[number - 1] if number else 0.0
            high = min(BOUNDS[number], longest) if number < len(BOUNDS) else longest
            return low + max(0.0, high - low) * max(0.0, wanted - below) / count
        below += count
    return longest
