"""Numbers of what has not ended, along partial indexes and no further than a cap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest

from jobs import conf, registry
from jobs.admin.access import principal
from jobs.admin.components import Capped, capped
from jobs.engine import closures, sql
from jobs.engine.closures import Stop
from jobs.models import Pause
from jobs.operate import pauses

CAP = 10_000
LANES = 50
"""Of so many lanes of a queue the head is looked at for the oldest wait."""


@dataclass(frozen=True, slots=True)
class QueueNow:
    """A queue as it is."""

    name: str
    waiting: Capped
    oldest: datetime | None
    """Since when the one waits that has waited longest."""
    running: int
    limit: int | None
    retrying: Capped
    scheduled: Capped
    workers: int
    slots: int
    pause: Pause | None
    blackout_until: datetime | None


_NAMES = """
SELECT name FROM jobs_queue UNION SELECT unnest(queues) FROM jobs_lease WHERE dead_at IS NULL
ORDER BY 1 LIMIT 500
"""
_QUEUES = """
SELECT q.name, w.n + l.queued, h.oldest, l.running, m.at_once, coalesce(e.workers, 0),
  coalesce(e.slots, 0)
FROM unnest(%(names)s::text[]) AS q(name)
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT 1 FROM jobs_job WHERE queue = q.name
  AND state = 'pending' AND wait = 0 LIMIT %(cap)s) s) w
CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE state = 'queued') AS queued,
  count(*) FILTER (WHERE state = 'running') AS running, min(run_at) FILTER (WHERE state = 'queued')
  AS since FROM (SELECT state, run_at FROM jobs_job WHERE queue = q.name
  AND state IN ('queued', 'running') LIMIT %(cap)s) s) l
CROSS JOIN LATERAL (WITH RECURSIVE lanes(lane, n) AS (
    (SELECT lane, 1 FROM jobs_job WHERE queue = q.name AND state = 'pending' AND wait = 0
      ORDER BY lane LIMIT 1)
    UNION ALL SELECT (SELECT j.lane FROM jobs_job j WHERE j.queue = q.name AND j.state = 'pending'
      AND j.wait = 0 AND j.lane > x.lane ORDER BY j.lane LIMIT 1), n + 1
    FROM lanes x WHERE x.lane IS NOT NULL AND x.n < %(lanes)s)
  SELECT least(l.since, min(f.run_at)) AS oldest FROM lanes x CROSS JOIN LATERAL
    (SELECT run_at FROM jobs_job WHERE queue = q.name AND state = 'pending' AND wait = 0
      AND lane = x.lane ORDER BY rank, id LIMIT 1) AS f WHERE x.lane IS NOT NULL) h
LEFT JOIN jobs_limiter m ON m.scope = 'queue:' || q.name
LEFT JOIN LATERAL (SELECT count(DISTINCT worker) AS workers, sum(slots) AS slots FROM jobs_lease
  WHERE q.name = ANY(queues) AND dead_at IS NULL AND until > jobs_clock()) e ON true
ORDER BY q.name
"""
_LATER = """
SELECT queue, count(*) FILTER (WHERE failures > 0), count(*) FILTER (WHERE failures = 0), max(n)
FROM (SELECT queue, failures, count(*) OVER () AS n FROM (SELECT queue, failures FROM jobs_job
  WHERE state = 'pending' AND wait = 1
    AND (%(tenants)s::text[] IS NULL OR tenant = ANY(%(tenants)s))
  LIMIT %(cap)s) p) s GROUP BY queue
"""


def queue_names(request: HttpRequest) -> list[str]:
    """Every queue that is known of and within sight."""
    known = {handler.queue for handler in registry.handlers()} | {conf.settings().DEFAULT_QUEUE}
    names = sorted(known | {row[0] for row in sql.rows(_NAMES)})
    seen = principal(request).scope.queues
    return names if seen is None else [name for name in names if name in seen]


def queues_now(request: HttpRequest) -> list[QueueNow]:
    """The queues within sight, in four statements."""
    values: dict[str, Any] = {"cap": CAP + 1, "lanes": LANES, "tenants": None}
    later = {row[0]: row[1:] for row in _rows(_LATER, values)}
    more = any(row[2] > CAP for row in later.values())
    paused, shut = closed(request)
    stops = {pause.scope: pause for pause in paused}
    seen = principal(request).scope
    names = {*queue_names(request), *later, *(s[6:] for s in stops if s.startswith("queue:"))}
    values["names"] = sorted(name for name in names if seen.covers(queue=name))
    black = {stop.scope: stop.until for stop in shut}
    found = []
    for name, waiting, oldest, running, limit, workers, slots in _rows(_QUEUES, values):
        retrying, scheduled, _ = later.get(name, (0, 0, 0))
        found.append(
            QueueNow(
                name, capped(waiting, CAP), oldest, running, limit, Capped(retrying, more),
                Capped(scheduled, more), workers, slots, stops.get(f"queue:{name}"),
                black.get(f"queue:{name}"),
            )
        )  # fmt: skip
    return found


def closed(request: HttpRequest) -> tuple[list[Pause], list[Stop]]:
    """Pauses and blackouts in force, asked for once while a page is made."""
    known: tuple[list[Pause], list[Stop]] | None = getattr(request, "_jobs_closed", None)
    if known is None:
        known = pauses.paused(), [stop for stop in closures.stops() if stop.what != "pause"]
        request._jobs_closed = known  # type: ignore[attr-defined]
    return known


def _rows(statement: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
    with sql.connection().cursor() as cursor:
        cursor.execute(statement, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found
