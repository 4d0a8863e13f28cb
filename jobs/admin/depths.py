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
    pause: Stop | None
    blackout_until: datetime | None


_QUEUES = """
WITH names AS MATERIALIZED (SELECT name FROM (SELECT unnest(%(known)s::text[]) AS name
    UNION SELECT name FROM jobs_queue
    UNION SELECT unnest(queues) FROM jobs_lease WHERE dead_at IS NULL) s
  WHERE %(seen)s::text[] IS NULL OR name = ANY (%(seen)s) ORDER BY 1 LIMIT 500),
later AS MATERIALIZED (SELECT queue, count(*) FILTER (WHERE failures > 0) AS retrying,
    count(*) FILTER (WHERE failures = 0) AS scheduled, max(n) > %(most)s AS more
  FROM (SELECT queue, failures, count(*) OVER () AS n FROM (SELECT queue, failures FROM jobs_job
    WHERE state = 'pending' AND wait = 1 LIMIT %(cap)s) p) s GROUP BY queue)
SELECT q.name, w.n + l.queued, h.oldest, l.running, m.at_once, coalesce(e.workers, 0),
  coalesce(e.slots, 0), coalesce(r.retrying, 0), coalesce(r.scheduled, 0),
  coalesce((SELECT bool_or(more) FROM later), false)
FROM names q
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
LEFT JOIN later r ON r.queue = q.name
ORDER BY q.name
"""


def queues_now(request: HttpRequest, *only: str) -> list[QueueNow]:
    """The queues within sight, in one statement; of names that are given, those."""
    stops = {(stop.what, stop.scope): stop for stop in closed(request)[1]}
    seen = principal(request).scope.queues
    wanted = [name for name in only if seen is None or name in seen] if only else seen
    values: dict[str, Any] = {
        "cap": CAP + 1,
        "most": CAP,
        "lanes": LANES,
        "known": sorted(_declared() | {s.removeprefix("queue:") for _, s in stops
                                       if s.startswith("queue:")}),
        "seen": None if wanted is None else sorted(wanted),
    }  # fmt: skip
    found = []
    for name, waiting, oldest, running, limit, workers, slots, retrying, scheduled, more in _rows(
        _QUEUES, values
    ):
        window = stops.get(("blackout", f"queue:{name}"))
        found.append(
            QueueNow(
                name, capped(waiting, CAP), oldest, running, limit, Capped(retrying, more),
                Capped(scheduled, more), workers, slots, stops.get(("pause", f"queue:{name}")),
                window.until if window else None,
            )
        )  # fmt: skip
    return found


def _declared() -> set[str]:
    """The queues that code knows of."""
    return {h.queue for h in registry.handlers()} | {conf.settings().DEFAULT_QUEUE}


_KNOWN = """
SELECT 1 FROM jobs_queue WHERE name = %s
UNION ALL (SELECT 1 FROM jobs_lease WHERE dead_at IS NULL AND %s = ANY (queues) LIMIT 1)
"""


def is_queue(request: HttpRequest, name: str) -> bool:
    """Whether there is such a queue, and within sight."""
    seen = principal(request).scope.queues
    if (seen is not None and name not in seen) or "\x00" in name:
        return False
    if name in _declared() or any(s.scope == f"queue:{name}" for s in closed(request)[1]):
        return True
    return bool(sql.rows(_KNOWN, [name, name]))


def closed(request: HttpRequest) -> tuple[datetime, list[Stop]]:
    """The moment, and what is closed then; asked for once while a page is made."""
    known: tuple[datetime, list[Stop]] | None = getattr(request, "_jobs_closed", None)
    if known is None:
        known = request._jobs_closed = closures.look()  # type: ignore[attr-defined]
    return known


def _rows(statement: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
    with sql.connection().cursor() as cursor:
        cursor.execute(statement, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found
