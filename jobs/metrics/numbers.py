"""The numbers behind the metrics, by a few queries that stay cheap however many jobs there are.

Finished jobs are never read: what ended is counted in the rows of the statistics that count since
ever. What has not ended is counted along partial indexes, and no further than ``MOST``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.engine import sql
from jobs.engine.minutes import TOTAL
from jobs.operate import depths
from jobs.operate.depths import Depth

MOST = 100_000
"""So far a queue is counted, in each state; more is shown as this many."""
STATEMENT_LIMIT = "3s"


@dataclass(frozen=True, slots=True)
class Number:
    """A metric's value for some labels."""

    name: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Durations:
    """How long attempts of a kind took that ended in one way."""

    kind: str
    status: str
    buckets: tuple[int, ...]
    seconds: float


def read() -> tuple[list[Number], list[Durations]]:
    """All numbers as they are now, in the order of ``names.METRICS`` within each group."""
    with sql.reading(STATEMENT_LIMIT):
        ended, durations = _ended()
        found = depths.by_queue(None, most=MOST)
        return [*ended, *_depths(found), *_latencies(found), *_rest()], durations


# ---- what has ended


def _ended() -> tuple[list[Number], list[Durations]]:
    found = sql.rows(
        "SELECT kind, queue, outcome, count, letters, stalls, seconds, buckets FROM jobs_minute "
        "WHERE minute = %s ORDER BY kind, queue, outcome",
        [TOTAL],
    )
    sums: dict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
    times: dict[tuple[str, str], Durations] = {}
    for kind, queue, outcome, count, letters, stalls, seconds, buckets in found:
        place = (kind, queue)
        sums["jobs_attempts_total", (*place, outcome)] += count
        sums["jobs_retries_total", place] += count if outcome == "retried" else 0
        sums["jobs_rate_limited_total", place] += count if outcome == "limited" else 0
        sums["jobs_dead_letters_total", place] += letters
        sums["jobs_lease_losses_total", place] += stalls
        old = times.get((kind, outcome)) or Durations(kind, outcome, (0,) * len(buckets), 0.0)
        added = tuple(a + b for a, b in zip(old.buckets, buckets, strict=True))
        times[kind, outcome] = Durations(kind, outcome, added, old.seconds + seconds)
    return [Number(name, labels, value) for (name, labels), value in sums.items()], [
        *times.values()
    ]


# ---- what has not


def _depths(found: Sequence[Depth]) -> Iterator[Number]:
    for depth in found:
        parts = {
            "ready": depth.ready.value,
            "scheduled": depth.scheduled.value + depth.retrying.value,
            "held": depth.held.value,
            "queued": depth.queued.value,
        }
        for state, number in parts.items():
            yield Number("jobs_queue_depth", (depth.name, state), number)
        yield Number("jobs_oldest_wait_seconds", (depth.name,), depth.oldest)
        yield Number("jobs_running", (depth.name,), depth.running.value)
        yield Number("jobs_slots_live", (depth.name,), depth.slots)


_LATENCIES = """
SELECT q.name, avg(extract(epoch FROM j.queued_at - greatest(j.run_at, j.created_at))),
  avg(extract(epoch FROM j.started_at - j.queued_at)) FILTER (WHERE j.state = 'running')
FROM unnest(%s::text[]) AS q(name) CROSS JOIN LATERAL (SELECT state, queued_at, run_at, created_at,
  started_at FROM jobs_job WHERE queue = q.name AND state IN ('queued', 'running') LIMIT %s) AS j
GROUP BY q.name ORDER BY q.name
"""


def _latencies(found: Sequence[Depth]) -> Iterator[Number]:
    names = [depth.name for depth in found]
    for queue, dispatch, claim in sql.rows(_LATENCIES, [names, MOST]):
        if dispatch is not None:
            yield Number("jobs_dispatch_latency_seconds", (queue,), max(0.0, float(dispatch)))
        if claim is not None:
            yield Number("jobs_claim_latency_seconds", (queue,), max(0.0, float(claim)))


# ---- everything else

_REST = """
SELECT
  (SELECT count(*) FROM (SELECT 1 FROM jobs_deadletter WHERE state = 'open' LIMIT %(most)s) AS s),
  (SELECT count(*) FROM (SELECT 1 FROM jobs_effect WHERE state = 'in_doubt' LIMIT %(most)s) AS s),
  (SELECT count(*) FROM jobs_limiter WHERE closed_until > jobs_clock()),
  (SELECT count(*) FROM jobs_limiter WHERE rated_at > jobs_clock() - interval '10 s'),
  (SELECT count(*) FROM jobs_meter WHERE closed_until > jobs_clock()),
  (SELECT count(*) FROM jobs_breaker WHERE state <> 'closed'),
  (SELECT count(DISTINCT worker) FROM jobs_lease WHERE dead_at IS NULL AND until > jobs_clock()),
  (SELECT count(*) FROM jobs_lease WHERE dead_at IS NULL AND until <= jobs_clock()),
  (SELECT count(*) FROM (SELECT 1 FROM jobs_outbox WHERE state = 'pending' AND NOT held
    LIMIT %(most)s) AS s),
  (SELECT count(*) FROM (SELECT 1 FROM jobs_outbox WHERE state IN ('failed', 'parked')
    LIMIT %(most)s) AS s),
  coalesce((SELECT extract(epoch FROM jobs_clock() - occurred_at) FROM jobs_outbox
    WHERE state = 'pending' AND NOT held ORDER BY id LIMIT 1), 0),
  coalesce((SELECT position FROM jobs_feed_head), 0)
"""
_REST_NAMES = (
    "jobs_dead_letters_open",
    "jobs_effects_in_doubt",
    "jobs_limits_closed",
    "jobs_rates_reached",
    "jobs_meters_closed",
    "jobs_circuits_open",
    "jobs_workers_live",
    "jobs_leases_lapsed",
    "jobs_outbox_pending",
    "jobs_outbox_stuck",
    "jobs_outbox_lag_seconds",
    "jobs_feed_position",
)


def _rest() -> Iterator[Number]:
    with sql.connection().cursor() as cursor:
        cursor.execute(_REST, {"most": MOST})
        row = cursor.fetchone()
    for name, value in zip(_REST_NAMES, row, strict=True):
        yield Number(name, (), max(0.0, float(value)))
