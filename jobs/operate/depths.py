"""What has not ended yet: by queue for those who see whole queues, by tenant for the others.

Everything is counted along partial indexes and no further than a cap, by one statement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobs import conf, registry
from jobs.engine import sql
from jobs.operate.query.terms import in_scope
from jobs.operate.reads import Count
from jobs.principals import Scope

MOST = 10_000
"""So far each number of a queue is counted."""
DELAYED = 20_000
"""So many delayed jobs, and so many held ones, of all queues together are counted."""
LANES = 100
"""Of so many lanes of a queue the head is looked at for the oldest wait."""


@dataclass(frozen=True, slots=True)
class Depth:
    """A queue, or all that somebody may see."""

    name: str
    waiting: Count
    """Due and not begun: also those that a limit, a key or a pause holds back."""
    running: Count
    scheduled: Count
    retrying: Count
    oldest: float = 0.0
    """Seconds that the longest waiting job has waited, among the heads of the first lanes."""
    slots: int = 0
    """Places of living workers that take jobs."""


_BY_QUEUE = f"""
WITH q AS MATERIALIZED (SELECT name FROM (SELECT unnest(%s::text[]) AS name
    UNION SELECT name FROM jobs_queue
    UNION SELECT unnest(queues) FROM jobs_lease WHERE dead_at IS NULL) AS s
  WHERE %s::text[] IS NULL OR name = ANY (%s) ORDER BY 1 LIMIT 1000),
delayed AS MATERIALIZED (SELECT queue, count(*) FILTER (WHERE failures = 0) AS scheduled,
    count(*) FILTER (WHERE failures > 0) AS retrying
  FROM (SELECT queue, failures FROM jobs_job WHERE state = 'pending' AND wait = 1
    LIMIT {DELAYED + 1}) AS s GROUP BY queue),
held AS MATERIALIZED (SELECT queue, count(*) AS number FROM (
    (SELECT id, queue FROM jobs_job WHERE state = 'pending' AND wait = 2
      AND exclusive_key IS NOT NULL LIMIT {DELAYED + 1})
    UNION (SELECT id, queue FROM jobs_job WHERE state = 'pending' AND wait = 2
      AND limit_key IS NOT NULL LIMIT {DELAYED + 1})) AS s GROUP BY queue)
SELECT q.name,
  (SELECT count(*) FROM (SELECT 1 FROM jobs_job WHERE queue = q.name AND state = 'pending'
    AND wait = 0 LIMIT {MOST + 1}) AS s),
  coalesce(h.number, 0), live.queued, live.running, coalesce(d.scheduled, 0),
  coalesce(d.retrying, 0),
  coalesce((WITH RECURSIVE lanes(lane, n) AS (
    (SELECT lane, 1 FROM jobs_job WHERE queue = q.name AND state = 'pending' AND wait = 0
      ORDER BY lane LIMIT 1)
    UNION ALL SELECT (SELECT j.lane FROM jobs_job j WHERE j.queue = q.name AND j.state = 'pending'
      AND j.wait = 0 AND j.lane > l.lane ORDER BY j.lane LIMIT 1), n + 1
    FROM lanes l WHERE l.lane IS NOT NULL AND l.n < {LANES})
  SELECT greatest(0, extract(epoch FROM jobs_clock() - min(o.run_at)))::float8 FROM lanes l
    CROSS JOIN LATERAL (SELECT run_at FROM jobs_job WHERE queue = q.name AND state = 'pending'
      AND wait = 0 AND lane = l.lane ORDER BY rank, id LIMIT 1) AS o
    WHERE l.lane IS NOT NULL), 0),
  (SELECT coalesce(sum(l.slots), 0)::int FROM jobs_lease l WHERE q.name = ANY (l.queues)
    AND l.dead_at IS NULL AND l.until > jobs_clock() AND NOT l.draining),
  (SELECT coalesce(sum(scheduled + retrying), 0) > {DELAYED} FROM delayed),
  (SELECT coalesce(sum(number), 0) > {DELAYED} FROM held)
FROM q LEFT JOIN delayed d ON d.queue = q.name LEFT JOIN held h ON h.queue = q.name
CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE state = 'queued') AS queued,
    count(*) FILTER (WHERE state = 'running') AS running
  FROM (SELECT state FROM jobs_job WHERE queue = q.name AND state IN ('queued', 'running')
    LIMIT {MOST + 1}) AS s) AS live
ORDER BY q.name
"""  # noqa: S608 - constants


def by_queue(names: frozenset[str] | None) -> list[Depth]:
    """Every queue there is, or those of the names."""
    known = {handler.queue for handler in registry.handlers()} | {conf.settings().DEFAULT_QUEUE}
    known |= names or frozenset()
    some = None if names is None else sorted(names)
    return [
        Depth(
            name,
            _sum((ready, ready > MOST), (held, some_held), (queued, queued + running > MOST)),
            Count(running, queued + running > MOST),
            Count(scheduled, delayed),
            Count(retrying, delayed),
            oldest,
            slots,
        )
        for (
            name, ready, held, queued, running, scheduled, retrying, oldest, slots, delayed,
            some_held,
        ) in sql.rows(_BY_QUEUE, [sorted(known), some, some])
    ]  # fmt: skip


def _sum(*parts: tuple[int, bool]) -> Count:
    return Count(sum(number for number, _ in parts), any(capped for _, capped in parts))


_PART = """
SELECT '{name}', count(*), count(*) FILTER (WHERE within) FROM (SELECT {within} AS within
  FROM jobs_job j WHERE {condition} LIMIT %s) AS s
"""
_PARTS = (
    ("waiting", "j.state = 'queued' AND j.state IN ('queued', 'running')"),
    ("running", "j.state = 'running' AND j.state IN ('queued', 'running')"),
    ("waiting", "j.state = 'pending' AND j.wait = 0"),
    ("scheduled", "j.state = 'pending' AND j.wait = 1 AND j.failures = 0"),
    ("retrying", "j.state = 'pending' AND j.wait = 1 AND j.failures > 0"),
    ("waiting", "j.state = 'pending' AND j.wait = 2 AND j.exclusive_key IS NOT NULL"),
    ("waiting", "j.state = 'pending' AND j.wait = 2 AND j.exclusive_key IS NULL "
     "AND j.limit_key IS NOT NULL"),
)  # fmt: skip


def within(scope: Scope) -> Depth:
    """All together that the scope lets be seen, where it does not let whole queues be seen."""
    conditions = in_scope(scope)
    text = " AND ".join(condition for condition, _ in conditions)
    given = [one for _, parameters in conditions for one in parameters]
    statement = " UNION ALL ".join(
        f"({_PART.format(name=name, within=text, condition=condition)})"
        for name, condition in _PARTS
    )
    sums: dict[str, Count] = {}
    for name, read, seen in sql.rows(statement, [v for _ in _PARTS for v in (*given, MOST + 1)]):
        sums[name] = plus((sums.get(name, Count(0)), Count(seen, read > MOST)))
    return Depth("", sums["waiting"], sums["running"], sums["scheduled"], sums["retrying"])


def plus(counts: Iterable[Count]) -> Count:
    """All together; capped where one of them is."""
    known = list(counts)
    return Count(sum(c.value for c in known), any(c.capped for c in known))
