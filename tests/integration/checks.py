"""What must be true after any fault beyond what the doctor knows, as SQL that finds what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EFFECTS = """
CREATE TABLE effects (id bigserial PRIMARY KEY, job_id uuid NOT NULL, attempt int NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp())
"""

_STEPS = "jsonb_array_elements(j.history) h"
# From when until when each job held its exclusive key.
_HELD = """
  steps AS (SELECT j.id, j.exclusive_key AS key, (t.h->>0)::float8 AS at, t.h->>2 AS state, t.n
    FROM jobs_job j, jsonb_array_elements(j.history) WITH ORDINALITY AS t(h, n)
    WHERE j.exclusive_key IS NOT NULL AND j.history_dropped = 0),
  held AS (SELECT s.id, s.key, s.at AS began, coalesce((SELECT min(e.at) FROM steps e
      WHERE e.id = s.id AND e.n > s.n AND e.state NOT IN ('queued', 'running')),
      'infinity') AS ended
    FROM steps s WHERE s.state = 'queued')"""

CHECKS = {
    "history counts other attempts than the job": f"""
        SELECT j.id FROM jobs_job j WHERE j.history_dropped = 0 AND j.attempt <> (
          SELECT count(*) FROM {_STEPS} WHERE h->>2 = 'running')""",  # noqa: S608 - constant text
    "a job succeeded in an attempt that is on record as ended otherwise": """
        SELECT j.id FROM jobs_job j JOIN jobs_attempt a ON a.job_id = j.id
        WHERE j.state = 'succeeded' AND a.number = j.attempt""",
    "an atomic effect was applied twice": """
        SELECT job_id FROM effects GROUP BY job_id HAVING count(*) > 1""",
    "an atomic effect is there without its success": """
        SELECT e.job_id FROM effects e JOIN jobs_job j ON j.id = e.job_id
        WHERE j.state <> 'succeeded'""",
    "an atomic success is there without its effect": """
        SELECT j.id FROM jobs_job j WHERE j.kind = 'test.effect' AND j.state = 'succeeded'
          AND NOT EXISTS (SELECT 1 FROM effects e WHERE e.job_id = j.id)""",
    "an exclusive key had two holders": f"""
        WITH {_HELD} SELECT a.id FROM held a JOIN held b ON a.key = b.key AND a.id < b.id
          AND a.began < b.ended AND b.began < a.ended""",  # noqa: S608 - constant text
    "a slot belongs to a job that is at its end": """
        SELECT s.job_id FROM jobs_slot s JOIN jobs_job j ON j.id = s.job_id
        WHERE j.state NOT IN ('pending', 'queued', 'running')""",
    "an effect comes from another attempt than the one that succeeded": """
        SELECT e.job_id FROM effects e JOIN jobs_job j ON j.id = e.job_id
        WHERE j.state = 'succeeded' AND e.attempt <> j.attempt""",
}


def violations(query: Callable[[str], list[tuple[Any, ...]]]) -> list[str]:
    """What is wrong, each with the first few jobs; empty when all is well."""
    found = []
    for name, statement in CHECKS.items():
        if ids := query(statement):
            shown = ", ".join(str(row[0]) for row in ids[:3])
            found.append(f"{name}: {len(ids)} ({shown})")
    return found
