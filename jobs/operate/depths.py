"""What has not ended yet: by queue for those who see whole queues, by tenant for the others.

The admin, the API, the command line and the metrics all show these numbers. Everything is counted
along partial indexes and no further than a cap, by one statement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs import conf, registry
from jobs.engine import sql
from jobs.operate import places
from jobs.operate.query.terms import in_scope
from jobs.operate.reads import Count, count
from jobs.principals import Scope

MOST = 10_000
"""So far each number of a queue is counted."""
DELAYED = 20_000
"""This many delayed jobs, and this many held ones, of all queues together are counted."""
LANES = 100
"""Of this many lanes of a queue the head is looked at for the oldest wait."""
QUEUES = 1000
"""The most queues that are shown."""
NOTHING = Count(0)
UNFINISHED = ("waiting", "running", "scheduled", "retrying")
"""What is counted of all queues together."""


@dataclass(frozen=True, slots=True)
class Depth:
    """A queue, or all that somebody may see."""

    name: str
    waiting: Count
    """Due and not begun: ready, held and queued jobs together."""
    running: Count
    scheduled: Count
    retrying: Count
    oldest: float = 0.0
    """Seconds that the longest waiting job has waited. Of ready jobs, the heads of the first lanes
    are looked at."""
    slots: int = 0
    """Places of living workers that take jobs."""
    workers: int = 0
    """Living workers that listen to it."""
    oldest_at: datetime | None = None
    """Since when the longest waiting job waits."""
    overdue_at: datetime | None = None
    """The same among the jobs that nothing holds back on purpose: neither a pause nor a blackout,
    and neither an exclusive key nor a limit of their key."""
    ready: Count = NOTHING
    """Of those that wait: next for a dispatcher."""
    held: Count = NOTHING
    """Of those that wait: put aside until a key or a limit of a key is free."""
    queued: Count = NOTHING
    """Of those that wait: handed to a worker's list."""
    limit: int | None = None
    """How many may run at once."""


# A queue exists from the moment a job names it, whether or not a worker has ever listened to it.
_NAMES = f"""
SELECT unnest(%(known)s::text[]) AS name UNION SELECT name FROM jobs_queue
UNION SELECT unnest(queues) FROM jobs_lease WHERE dead_at IS NULL
UNION SELECT substr(scope, 7) FROM jobs_closure WHERE starts_with(scope, 'queue:')
UNION {places.QUEUES}
"""  # noqa: S608 - constants
_IS_OPEN = """NOT closed.scopes && ARRAY['queue:' || j.queue, 'kind:' || j.kind,
      'tenant:' || j.tenant, 'key:' || j.exclusive_key, 'limit_key:' || j.limit_key]"""
_BY_QUEUE = f"""
WITH closed AS MATERIALIZED (SELECT jobs_closed() AS scopes),
later AS MATERIALIZED (SELECT queue, failures FROM jobs_job
  WHERE state = 'pending' AND wait = 1 LIMIT %(delayed)s + 1),
delayed AS MATERIALIZED (SELECT queue, count(*) FILTER (WHERE failures = 0) AS scheduled,
    count(*) FILTER (WHERE failures > 0) AS retrying FROM later GROUP BY queue),
aside AS MATERIALIZED (
  (SELECT id, queue, run_at FROM jobs_job WHERE state = 'pending' AND wait = 2
    AND exclusive_key IS NOT NULL LIMIT %(delayed)s + 1)
  UNION (SELECT id, queue, run_at FROM jobs_job WHERE state = 'pending' AND wait = 2
    AND limit_key IS NOT NULL LIMIT %(delayed)s + 1)),
held AS MATERIALIZED (SELECT queue, count(*) AS number, min(run_at) AS since FROM aside
  GROUP BY queue),
q AS MATERIALIZED (SELECT name FROM ({_NAMES}) AS s
  WHERE %(some)s::text[] IS NULL OR name = ANY (%(some)s) ORDER BY 1 LIMIT {QUEUES})
SELECT q.name, r.number, coalesce(h.number, 0), live.queued, live.running,
  coalesce(d.scheduled, 0), coalesce(d.retrying, 0), coalesce(l.slots, 0)::int, l.workers::int,
  greatest(0, extract(epoch FROM jobs_clock() - least(heads.since, live.since, h.since)))::float8,
  least(heads.since, live.since, h.since), least(heads.overdue, live.overdue),
  (SELECT m.at_once FROM jobs_limiter m WHERE m.scope = 'queue:' || q.name),
  (SELECT count(*) > %(delayed)s FROM later), (SELECT count(*) > %(delayed)s FROM aside)
FROM closed CROSS JOIN q
LEFT JOIN delayed d ON d.queue = q.name LEFT JOIN held h ON h.queue = q.name
CROSS JOIN LATERAL (SELECT count(*) AS number FROM (SELECT 1 FROM jobs_job WHERE queue = q.name
  AND state = 'pending' AND wait = 0 LIMIT %(most)s + 1) AS s) AS r
CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE state = 'queued') AS queued,
    count(*) FILTER (WHERE state = 'running') AS running,
    min(run_at) FILTER (WHERE state = 'queued') AS since,
    min(run_at) FILTER (WHERE state = 'queued' AND is_open) AS overdue
  FROM (SELECT state, run_at, {_IS_OPEN} AS is_open FROM jobs_job j WHERE queue = q.name
    AND state IN ('queued', 'running') LIMIT %(most)s + 1) AS s) AS live
CROSS JOIN LATERAL (WITH RECURSIVE lanes(lane, n) AS (
    (SELECT lane, 1 FROM jobs_job WHERE queue = q.name AND state = 'pending' AND wait = 0
      ORDER BY lane LIMIT 1)
    UNION ALL SELECT (SELECT j.lane FROM jobs_job j WHERE j.queue = q.name AND j.state = 'pending'
      AND j.wait = 0 AND j.lane > lanes.lane ORDER BY j.lane LIMIT 1), n + 1
    FROM lanes WHERE lanes.lane IS NOT NULL AND n < {LANES})
  SELECT min(o.run_at) AS since, min(o.run_at) FILTER (WHERE o.is_open) AS overdue
  FROM lanes CROSS JOIN LATERAL (SELECT run_at, {_IS_OPEN} AS is_open FROM jobs_job j
    WHERE queue = q.name AND state = 'pending' AND wait = 0 AND lane = lanes.lane
    ORDER BY rank, id LIMIT 1) AS o WHERE lanes.lane IS NOT NULL) AS heads
CROSS JOIN LATERAL (SELECT sum(slots) FILTER (WHERE NOT draining) AS slots,
    count(DISTINCT worker) AS workers FROM jobs_lease
  WHERE q.name = ANY (queues) AND dead_at IS NULL AND until > jobs_clock()) AS l
ORDER BY q.name
"""  # noqa: S608 - constants


def by_queue(names: frozenset[str] | None, *, most: int | None = None) -> list[Depth]:
    """Return every queue there is, or those of the names that there are."""
    most = MOST if most is None else most
    some = None if names is None else sorted(names)
    delayed = max(DELAYED, most)
    given = {"known": _declared(), "some": some, "most": most, "delayed": delayed}
    return [_depth(most, *row) for row in _rows(_BY_QUEUE, given)]


def _depth(
    most: int, name: str, ready: int, held: int, queued: int, running: int, scheduled: int,
    retrying: int, slots: int, workers: int, oldest: float | None, oldest_at: datetime | None,
    overdue_at: datetime | None, limit: int | None, some_delayed: bool, some_held: bool,
) -> Depth:  # fmt: skip
    live = queued + running > most
    parts = count(ready, most), Count(held, some_held), Count(queued, live)
    return Depth(
        name, plus(parts), Count(running, live), Count(scheduled, some_delayed),
        Count(retrying, some_delayed), oldest or 0.0, slots, workers, oldest_at, overdue_at, *parts,
        limit,
    )  # fmt: skip


def totals(found: Iterable[Depth]) -> dict[str, Count]:
    """Return what the queues hold together, counted as far as one list of jobs is."""
    known = list(found)
    sums = {name: plus(getattr(depth, name) for depth in known) for name in UNFINISHED}
    return {name: Count(min(n.value, MOST), n.capped or n.value > MOST) for name, n in sums.items()}


def waiting(queues: Iterable[str]) -> dict[str, int]:
    """Return how many jobs of each queue have not begun, also those whose moment has not come."""
    found = dict.fromkeys(queues, 0)
    for depth in by_queue(frozenset(found)):
        found[depth.name] = depth.waiting.value + depth.scheduled.value + depth.retrying.value
    return found


def names(scope: Scope) -> list[str]:
    """Return the queues that there are, within the scope."""
    some = None if scope.queues is None else sorted(scope.queues)
    return [name for (name,) in _rows(_KNOWN, {"known": _declared(), "some": some})]


def exists(name: str, scope: Scope) -> bool:
    """Return whether there is a queue of this name, within the scope."""
    if not scope.covers(queue=name):
        return False
    return name in _declared() or bool(_rows(_EXISTS, {"name": name}))


_EXISTS = f"""
SELECT 1 FROM jobs_queue WHERE name = %(name)s
UNION ALL (SELECT 1 FROM jobs_lease WHERE dead_at IS NULL AND %(name)s = ANY (queues) LIMIT 1)
UNION ALL SELECT 1 FROM jobs_closure WHERE scope = 'queue:' || %(name)s
UNION ALL (SELECT 1 FROM jobs_job j WHERE {places.PLACE} > %(name)s || E'\\x1f'
  AND {places.PLACE} < %(name)s || ' ' LIMIT 1)
"""  # noqa: S608 - constants


_KNOWN = f"""
SELECT name FROM ({_NAMES}) AS s WHERE %(some)s::text[] IS NULL OR name = ANY (%(some)s)
ORDER BY 1 LIMIT {QUEUES}
"""  # noqa: S608 - constants


def _declared() -> list[str]:
    """Return the queues that code names."""
    known = {handler.queue for handler in registry.handlers()}
    return sorted(known | {conf.settings().DEFAULT_QUEUE})


def _rows(statement: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
    with sql.connection().cursor() as cursor:
        cursor.execute(statement, given)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


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
