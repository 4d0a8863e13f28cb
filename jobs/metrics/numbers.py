"""The numbers behind the metrics, by a few queries that stay cheap however many jobs there are.

Finished jobs are never read: what ended is counted in the rows of the statistics that count since
ever. What has not ended is counted along partial indexes, and no further than ``MOST``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import transaction

from jobs import conf, registry
from jobs.engine import sql
from jobs.engine.minutes import TOTAL

MOST = 100_000
"""So far a queue is counted, in each state; more is shown as this many."""
LANES = 100
"""Of so many lanes of a queue the head is looked at for the oldest wait."""
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
    with _bounded():
        ended, durations = _ended()
        queues = _queues()
        return [*ended, *_depths(queues), *_live(queues), *_rest(), *_slots(queues)], durations


@contextmanager
def _bounded() -> Iterator[None]:
    """The block reads only and no statement of it runs for long; in a transaction, just runs."""
    if sql.connection().in_atomic_block:
        yield
        return
    with transaction.atomic(using=sql.alias()):
        sql.run("SET TRANSACTION READ ONLY")
        sql.run(f"SET LOCAL statement_timeout = '{STATEMENT_LIMIT}'")
        yield


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

_QUEUES = """
SELECT name FROM jobs_queue UNION SELECT unnest(queues) FROM jobs_lease WHERE dead_at IS NULL
ORDER BY 1 LIMIT 1000
"""
_READY = """
SELECT q.name, (SELECT count(*) FROM (SELECT 1 FROM jobs_job WHERE queue = q.name
    AND state = 'pending' AND wait = 0 LIMIT %s) AS part),
  (WITH RECURSIVE lanes(lane, n) AS (
    (SELECT lane, 1 FROM jobs_job WHERE queue = q.name AND state = 'pending' AND wait = 0
      ORDER BY lane LIMIT 1)
    UNION ALL SELECT (SELECT j.lane FROM jobs_job j WHERE j.queue = q.name AND j.state = 'pending'
      AND j.wait = 0 AND j.lane > l.lane ORDER BY j.lane LIMIT 1), n + 1
    FROM lanes l WHERE l.lane IS NOT NULL AND l.n < %s)
  SELECT extract(epoch FROM jobs_clock() - min(h.run_at)) FROM lanes l CROSS JOIN LATERAL
    (SELECT run_at FROM jobs_job WHERE queue = q.name AND state = 'pending' AND wait = 0
      AND lane = l.lane ORDER BY rank, id LIMIT 1) AS h WHERE l.lane IS NOT NULL)
FROM unnest(%s::text[]) AS q(name)
"""
_SCHEDULED = """
SELECT queue, count(*) FROM (SELECT queue FROM jobs_job WHERE state = 'pending' AND wait = 1
  LIMIT %s) AS part GROUP BY queue
"""
_HELD = """
SELECT queue, count(*) FROM (
  (SELECT id, queue FROM jobs_job WHERE state = 'pending' AND wait = 2
    AND exclusive_key IS NOT NULL LIMIT %s)
  UNION (SELECT id, queue FROM jobs_job WHERE state = 'pending' AND wait = 2
    AND limit_key IS NOT NULL LIMIT %s)) AS part GROUP BY queue
"""


def _queues() -> list[str]:
    known = {handler.queue for handler in registry.handlers()} | {conf.settings().DEFAULT_QUEUE}
    return sorted(known | {row[0] for row in sql.rows(_QUEUES)})


def _depths(queues: Sequence[str]) -> Iterator[Number]:
    for queue, ready, oldest in sql.rows(_READY, [MOST, LANES, list(queues)]):
        yield Number("jobs_queue_depth", (queue, "ready"), ready)
        yield Number("jobs_oldest_wait_seconds", (queue,), max(0.0, float(oldest or 0)))
    for state, statement, parameters in (
        ("scheduled", _SCHEDULED, [MOST]),
        ("held", _HELD, [MOST, MOST]),
    ):
        counted: dict[str, int] = dict(sql.rows(statement, parameters))
        for queue in sorted({*queues, *counted}):
            yield Number("jobs_queue_depth", (queue, state), counted.get(queue, 0))


_LIVE = """
SELECT q.name, count(*) FILTER (WHERE j.state = 'queued'),
  count(*) FILTER (WHERE j.state = 'running'),
  avg(extract(epoch FROM j.queued_at - greatest(j.run_at, j.created_at))),
  avg(extract(epoch FROM j.started_at - j.queued_at)) FILTER (WHERE j.state = 'running')
FROM unnest(%s::text[]) AS q(name) LEFT JOIN LATERAL (SELECT state, queued_at, run_at, created_at,
  started_at FROM jobs_job WHERE queue = q.name AND state IN ('queued', 'running') LIMIT %s) AS j
  ON true
GROUP BY q.name ORDER BY q.name
"""


def _live(queues: Sequence[str]) -> Iterator[Number]:
    for queue, queued, running, dispatch, claim in sql.rows(_LIVE, [list(queues), MOST]):
        yield Number("jobs_queue_depth", (queue, "queued"), queued)
        yield Number("jobs_running", (queue,), running)
        if dispatch is not None:
            yield Number("jobs_dispatch_latency_seconds", (queue,), max(0.0, float(dispatch)))
        if claim is not None:
            yield Number("jobs_claim_latency_seconds", (queue,), max(0.0, float(claim)))


# ---- everything else

_REST = """
SELECT
  (SELECT count(*) FROM (SELECT 1 FROM jobs_deadletter WHERE state = 'open' LIMIT %(most)s) AS s),
  (SELECT count(*) FROM jobs_limiter WHERE closed_until > jobs_clock()),
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
    "jobs_limits_closed",
    "jobs_workers_live",
    "jobs_leases_lapsed",
    "jobs_outbox_pending",
    "jobs_outbox_stuck",
    "jobs_outbox_lag_seconds",
    "jobs_feed_position",
)
_SLOTS = """
SELECT q.name, coalesce(sum(l.slots), 0) FROM unnest(%s::text[]) AS q(name)
LEFT JOIN jobs_lease l ON q.name = ANY(l.queues) AND l.dead_at IS NULL AND l.until > jobs_clock()
  AND NOT l.draining
GROUP BY q.name ORDER BY q.name
"""


def _rest() -> Iterator[Number]:
    with sql.connection().cursor() as cursor:
        cursor.execute(_REST, {"most": MOST})
        row = cursor.fetchone()
    for name, value in zip(_REST_NAMES, row, strict=True):
        yield Number(name, (), max(0.0, float(value)))


def _slots(queues: Sequence[str]) -> Iterator[Number]:
    for queue, slots in sql.rows(_SLOTS, [list(queues)]):
        yield Number("jobs_slots_live", (queue,), slots)
