"""What must be true of the tables after any fault, as SQL that finds what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EFFECTS = """
CREATE TABLE effects (id bigserial PRIMARY KEY, job_id uuid NOT NULL, attempt int NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp())
"""

_STEP = "(SELECT h.value, h.ordinality AS n FROM jsonb_array_elements(j.history) WITH ORDINALITY h)"
_BROKEN_CHAIN = f"""
SELECT j.id FROM jobs_job j WHERE j.history_dropped = 0 AND EXISTS (
  SELECT 1 FROM {_STEP} a JOIN {_STEP} b ON b.n = a.n + 1 WHERE a.value->>2 <> b.value->>1)
"""  # noqa: S608 - constant text
_MISCOUNTED = f"""
SELECT j.id FROM jobs_job j WHERE j.history_dropped = 0 AND j.attempt <> (
  SELECT count(*) FROM {_STEP} h WHERE h.value->>2 = 'running')
"""  # noqa: S608 - constant text

CHECKS = {
    "a running job has no lease": """
        SELECT j.id FROM jobs_job j LEFT JOIN jobs_lease l ON l.owner = j.owner
        WHERE j.state = 'running' AND l.owner IS NULL""",
    "a failed job has no open dead letter": """
        SELECT j.id FROM jobs_job j WHERE j.state = 'failed' AND NOT EXISTS
          (SELECT 1 FROM jobs_deadletter d WHERE d.job_id = j.id AND d.state = 'open')""",
    "an open dead letter points at a job that has not failed": """
        SELECT d.job_id FROM jobs_deadletter d JOIN jobs_job j ON j.id = d.job_id
        WHERE d.state = 'open' AND j.state <> 'failed'""",
    "an attempt is numbered beyond those its job has had": """
        SELECT a.job_id FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id
        WHERE a.number > j.attempt OR a.number < 1""",
    "failures or crashes are not those of the attempts": """
        SELECT j.id FROM jobs_job j WHERE (j.failures, j.crashes) <> (
          SELECT count(*) FILTER (WHERE outcome IN ('failed', 'timeout')),
            count(*) FILTER (WHERE outcome = 'crashed')
          FROM jobs_attempt a WHERE a.job_id = j.id)""",
    "an attempt ended before it started": """
        SELECT job_id FROM jobs_attempt WHERE ended_at < started_at""",
    "history begins elsewhere than the step before ended": _BROKEN_CHAIN,
    "history does not end with the state": """
        SELECT id FROM jobs_job WHERE history <> '[]' AND history->-1->>2 <> state""",
    "history counts other attempts than the job": _MISCOUNTED,
    "a job succeeded after an attempt that is on record as ended otherwise": """
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
