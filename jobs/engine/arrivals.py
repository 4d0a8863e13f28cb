"""What is counted once a minute is over: how many jobs were enqueued in it, and sums for charts.

Arrivals are counted along the index of the lists, and stand among the statistics of the minute
without kind and queue: those the index does not know. Quarters of an hour are summed up from the
minutes.
"""

from __future__ import annotations

from typing import Final

from django.db import transaction

from jobs.engine import sql

INTERVAL: Final = 20.0
"""Seconds between two looks for a minute that is over."""
SETTLED: Final = 30.0
"""A minute is counted this many seconds after its end: what arrived in it is committed by then."""
BACK: Final = 60
"""Minutes that are made up for after a pause without any dispatcher."""
AT_ONCE: Final = 5
"""Minutes that one look counts."""
MOST: Final = 2_000_000
"""So far one minute is counted."""
OUTCOME: Final = "enqueued"
_LOCK = 0x6A6F627300000025
"""The advisory lock of the process that counts."""

# A minute without any arrival gets no row, and costs one probe until a later minute has its row.
_COUNT = f"""
WITH s AS MATERIALIZED (SELECT date_trunc('minute', jobs_clock() - {SETTLED} * interval '1 s')
  AS until),
todo AS MATERIALIZED (SELECT t.minute FROM s, generate_series(
    coalesce((SELECT m.minute FROM jobs_minute m WHERE m.minute < s.until
        AND m.minute >= s.until - {BACK} * interval '1 min'
        AND m.kind = '' AND m.queue = '' AND m.outcome = '{OUTCOME}'
        ORDER BY m.minute DESC LIMIT 1) + interval '1 min',
      s.until - {BACK} * interval '1 min'),
    s.until - interval '1 min', interval '1 min') AS t(minute)
  WHERE EXISTS (SELECT 1 FROM jobs_job j
    WHERE j.created_at >= t.minute AND j.created_at < t.minute + interval '1 min')
  ORDER BY t.minute LIMIT {AT_ONCE})
INSERT INTO jobs_minute (kind, queue, outcome, minute, count)
SELECT '', '', '{OUTCOME}', todo.minute, (SELECT count(*) FROM (SELECT 1 FROM jobs_job j
    WHERE j.created_at >= todo.minute AND j.created_at < todo.minute + interval '1 min'
    LIMIT {MOST}) AS part)
FROM todo ORDER BY todo.minute
ON CONFLICT (minute, kind, queue, outcome) DO NOTHING
"""  # noqa: S608 - constants

QUARTERS_BACK: Final = 8
"""Days of quarters that are made up for."""
QUARTERS_AT_ONCE: Final = 12
# In order and without gaps: charts take the quarters up to the last, and minutes from there on.
_SUM = f"""
WITH s AS MATERIALIZED (SELECT date_bin('15 min', jobs_clock() - {3 * SETTLED + 60}
    * interval '1 s', TIMESTAMPTZ '2000-01-01 00:00+00') AS until),
todo AS MATERIALIZED (SELECT t.at FROM s, generate_series(
    greatest((SELECT max(q.at) FROM jobs_quarter q) + interval '15 min',
      s.until - {QUARTERS_BACK} * interval '1 day'),
    s.until - interval '15 min', interval '15 min') AS t(at)
  WHERE EXISTS (SELECT 1 FROM jobs_minute m
    WHERE m.minute >= t.at AND m.minute < t.at + interval '15 min')
  ORDER BY t.at LIMIT {QUARTERS_AT_ONCE})
INSERT INTO jobs_quarter (queue, outcome, at, count)
SELECT m.queue, m.outcome, todo.at, sum(m.count) FROM todo JOIN jobs_minute m
  ON m.minute >= todo.at AND m.minute < todo.at + interval '15 min'
GROUP BY todo.at, m.queue, m.outcome ORDER BY todo.at, m.queue, m.outcome
ON CONFLICT (at, queue, outcome) DO NOTHING
"""  # noqa: S608 - constants


def tally() -> tuple[int, int]:
    """Past minutes have their number, and past quarters their sums, once for all processes.

    Answers how many rows of each sort were made.
    """
    with transaction.atomic(using=sql.alias()):
        if sql.rows("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK]) == [(False,)]:
            return 0, 0
        sql.rows(sql.NO_JIT)
        counted = sql.run(_COUNT)
        # A quarter is summed up once: not before all of its minutes have their number.
        return counted, 0 if counted == AT_ONCE else sql.run(_SUM)
