"""Series for charts: what ended when, how, and after how long, from the statistics by the minute.

Jobs are never read here. A series has a point for every step of its time, also for those in which
nothing ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from jobs import histograms
from jobs.engine import sql
from jobs.errors import InvalidOption

MINUTE = timedelta(minutes=1)
POINTS_LIMIT = 2000
"""Most points of one series."""
LONGEST = timedelta(days=366)
ANSWERS = ("succeeded", "failed", "retried")
"""Outcomes of attempts whose handler came to an end of its own."""


@dataclass(frozen=True, slots=True)
class Point:
    """What ended from ``at`` on, for the length of a step."""

    at: datetime
    step: float
    """Seconds."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Attempts by their outcome; outcomes that did not occur are missing."""
    letters: int = 0
    stalls: int = 0
    """Attempts that were lost or crashed."""
    seconds: float = 0.0
    """All durations of attempts that succeeded, failed or are retried."""
    longest: float = 0.0
    buckets: tuple[int, ...] = (0,) * histograms.SIZE

    @property
    def ended(self) -> int:
        """Attempts that succeeded, failed or are retried."""
        return sum(self.counts.get(name, 0) for name in ANSWERS)

    @property
    def throughput(self) -> float:
        """Jobs that succeeded, per second."""
        return self.counts.get("succeeded", 0) / self.step

    @property
    def failure_rate(self) -> float | None:
        """The share of ended attempts that did not succeed; None where none ended."""
        ended = self.ended
        return 1 - self.counts.get("succeeded", 0) / ended if ended else None

    @property
    def mean(self) -> float | None:
        """The mean duration in seconds; None where none ended."""
        return self.seconds / self.ended if self.ended else None

    def quantile(self, share: float) -> float | None:
        """The estimated duration that this share of the attempts does not exceed."""
        return histograms.quantile(self.buckets, share, self.longest)

    @property
    def p50(self) -> float | None:
        return self.quantile(0.5)

    @property
    def p95(self) -> float | None:
        return self.quantile(0.95)


def total(points: Sequence[Point]) -> Point:
    """All of a series, which has at least one point, as one point."""
    counts = Counter[str]()
    for point in points:
        counts.update(point.counts)
    return Point(
        points[0].at,
        sum(point.step for point in points),
        dict(counts),
        sum(point.letters for point in points),
        sum(point.stalls for point in points),
        sum(point.seconds for point in points),
        max(point.longest for point in points),
        tuple(map(sum, zip(*(point.buckets for point in points), strict=True))),
    )


_SUMS = ", ".join(f"sum(buckets[{n}])::bigint" for n in range(1, histograms.SIZE + 1))
_NONE = ", ".join(["0::bigint"] * histograms.SIZE)
_SERIES = """
SELECT date_bin(%s, minute, %s), CASE %s WHEN 'kind' THEN kind WHEN 'queue' THEN queue ELSE '' END,
  outcome, sum(count)::bigint, sum(letters)::bigint, sum(stalls)::bigint, sum(seconds),
  max(longest), {buckets}
FROM jobs_minute
WHERE minute >= %s AND minute < %s AND outcome <> 'enqueued' AND (%s::text IS NULL OR kind = %s)
  AND (%s::text IS NULL OR queue = %s)
GROUP BY 1, 2, 3
"""
_WITH_DURATIONS = _SERIES.format(buckets=_SUMS)
# Durations by bucket are most of a row: to add them up is most of the work.
_WITHOUT = _SERIES.format(buckets=_NONE)


def series(
    since: datetime,
    until: datetime | None = None,
    *,
    step: timedelta = MINUTE,
    by: Literal["kind", "queue"] | None = None,
    kind: str | None = None,
    queue: str | None = None,
    durations: bool = True,
) -> dict[str, list[Point]]:
    """Points by kind or queue, or under the empty name of all; ``until`` is now.

    ``since`` is rounded down to its minute. Names of which nothing ended in the time are missing;
    without ``by`` there is always the one series. Without ``durations`` it is cheaper, and its
    points know no quantiles.
    """
    if until is None:
        [(until,)] = sql.rows("SELECT jobs_clock()")
    since = _checked(since, until, step, by)
    starts = [since + step * n for n in range(-(-(until - since) // step))]
    parameters = [step, since, by or "", since, until, kind, kind, queue, queue]
    parts: dict[str, dict[datetime, Point]] = {} if by else {"": {}}
    for at, name, outcome, count, letters, stalls, seconds, longest, *buckets in sql.rows(
        _WITH_DURATIONS if durations else _WITHOUT, parameters
    ):
        points = parts.setdefault(name, {})
        old = points.get(at) or Point(at, step.total_seconds())
        is_answer = outcome in ANSWERS
        points[at] = Point(
            at,
            old.step,
            {**old.counts, outcome: count},
            old.letters + letters,
            old.stalls + stalls,
            old.seconds + (seconds if is_answer else 0.0),
            max(old.longest, longest if is_answer else 0.0),
            tuple(a + (b or 0) for a, b in zip(old.buckets, buckets, strict=True))
            if is_answer
            else old.buckets,
        )
    return {
        name: [points.get(at) or Point(at, step.total_seconds()) for at in starts]
        for name, points in sorted(parts.items())
    }


def _checked(since: datetime, until: datetime, step: timedelta, by: object) -> datetime:
    """The rounded beginning of a series that can be had; raises InvalidOption otherwise."""
    for option, moment in (("since", since), ("until", until)):
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            raise InvalidOption(option, "must be a datetime with a time zone")
    if by not in (None, "kind", "queue"):
        raise InvalidOption("by", f"must be 'kind' or 'queue', got {by!r}")
    if step < MINUTE or step % MINUTE:
        raise InvalidOption("step", "must be a whole number of minutes")
    since = since.replace(second=0, microsecond=0)
    if not timedelta(0) < until - since <= LONGEST:
        raise InvalidOption("since", "must lie before until, and at most 366 days before")
    if (until - since) / step > POINTS_LIMIT:
        raise InvalidOption("step", f"is too short: a series has at most {POINTS_LIMIT} points")
    return since
