"""Jobs that wait because of what an attempt met: made due when that is over."""

from __future__ import annotations

from jobs.engine import sql
from jobs.engine.flow import PRIORITY_STEP_MS

_WHY_LIMIT = 100
"""So much of a reason stays in a job's history."""

# A job that was put off says why in the last line of its history.
_RELEASE = """
WITH l AS MATERIALIZED (SELECT id FROM jobs_job WHERE state = 'pending' AND wait = 1
    AND run_at > jobs_clock() AND starts_with(history->-1->>4, %s)
  ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobs_job j SET run_at = jobs_clock(), wait = 0,
  rank = (extract(epoch FROM jobs_clock()) * 1000)::bigint - j.priority * %s::bigint
FROM l WHERE j.id = l.id AND j.state = 'pending' RETURNING 1
"""


def release(words: str) -> int:
    """Make the jobs due that were put off for a reason that begins so; return how many."""
    parameters = [words[:_WHY_LIMIT], PRIORITY_STEP_MS]
    return len(sql.repeating(lambda: sql.bound_rows(_RELEASE, parameters)))
