"""How it goes lately: what ended in the last hours, by queue, from the statistics by the minute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jobs.engine import sql
from jobs.operate.stats import ANSWERS

STEP = timedelta(minutes=6)
STEPS = 30


@dataclass(frozen=True, slots=True)
class Pulse:
    """Attempts that ended by an answer of their handler."""

    sparks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By queue, thirty steps of six minutes."""
    done: int = 0
    failed: int = 0
    """Of the last hour."""
    rate: float | None = None
    """The share of the last ten minutes' attempts that did not succeed; None after too few."""
    usual: float = 0.0
    """The same share of the day before."""


NOTHING = Pulse()
FEW = 20
"""Fewer attempts than these say nothing about a failure rate."""
_HOURS = """
SELECT queue, floor(extract(epoch FROM minute - %s) / %s)::int, outcome, sum(count)::bigint,
  coalesce(sum(count) FILTER (WHERE minute >= %s), 0)::bigint,
  coalesce(sum(count) FILTER (WHERE minute >= %s), 0)::bigint
FROM jobs_minute WHERE minute >= %s AND minute < %s AND queue = ANY(%s) AND outcome = ANY(%s)
GROUP BY 1, 2, 3
"""
_DAY = """
SELECT coalesce(sum(count), 0)::bigint,
  coalesce(sum(count) FILTER (WHERE outcome <> 'succeeded'), 0)::bigint
FROM jobs_minute WHERE minute >= %s AND minute < %s AND queue = ANY(%s) AND outcome = ANY(%s)
"""


def read(now: datetime, names: Sequence[str], *, usual: bool = True) -> Pulse:
    """How it goes in the queues of these names; without ``usual``, leave the rates out."""
    since = now - STEP * STEPS
    hour, lately = now - timedelta(hours=1), now - timedelta(minutes=10)
    sparks: dict[str, list[int]] = defaultdict(lambda: [0] * STEPS)
    done = failed = ended = bad = 0
    values = [since, STEP.total_seconds(), hour, lately, since, now, list(names), list(ANSWERS)]
    for name, step, outcome, number, in_hour, in_minutes in sql.rows(_HOURS, values):
        sparks[name][min(step, STEPS - 1)] += number
        done += in_hour if outcome == "succeeded" else 0
        failed += in_hour if outcome == "failed" else 0
        ended += in_minutes
        bad += in_minutes if outcome != "succeeded" else 0
    told = {name: tuple(numbers) for name, numbers in sparks.items()}
    if ended < FEW or not bad or not usual:
        return Pulse(told, done, failed)
    [(all_ended, all_bad)] = sql.rows(
        _DAY, [now - timedelta(hours=24), lately, list(names), list(ANSWERS)]
    )
    return Pulse(told, done, failed, bad / ended, all_bad / max(1, all_ended))
