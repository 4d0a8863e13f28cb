"""What must be true after any fault beyond what the doctor knows, as SQL that finds what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EFFECTS = """
CREATE TABLE effects (id bigserial PRIMARY KEY, job_id uuid NOT NULL, attempt int NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp())
"""

_STEPS = "jsonb_array_elements(j.history) h"

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
