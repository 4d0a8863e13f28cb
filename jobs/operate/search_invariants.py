"""The invariants of the values by which jobs are found.

They follow the rules of ``jobs.operate.invariants``.
"""

from __future__ import annotations

from jobs.operate.invariants import Invariant

SEARCH_INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "found_value_has_job",
        "Every search value belongs to a job.",
        """
SELECT s.job_id::text, s.path || ' of a job that is gone'
FROM (SELECT * FROM jobs_search ORDER BY id DESC LIMIT %(depth)s) s
WHERE NOT EXISTS (SELECT 1 FROM jobs_job j WHERE j.id = s.job_id)
""",
        "jobs were deleted directly: delete their rows in jobs_search, too",
        "a value is written by the transaction that creates or locks its job; retention deletes "
        "both",
    ),
    Invariant(
        "tagged_job_is_found",
        "A job is found by each of its tags, and by its correlation id.",
        """
WITH recent AS (SELECT id, tags, correlation_id FROM jobs_job
  ORDER BY created_at DESC, id DESC LIMIT %(depth)s)
SELECT r.id::text, 'is not found by ' || v.path || ' ' || v.value
FROM recent r CROSS JOIN LATERAL (SELECT 'tag' AS path, unnest(r.tags) AS value
  UNION ALL SELECT 'correlation', r.correlation_id WHERE r.correlation_id <> '') v
WHERE NOT EXISTS (SELECT 1 FROM jobs_search s WHERE s.job_id = r.id AND s.path = v.path
  AND s.value = v.value)
""",
        "find what has written to these tables directly and insert the missing rows",
        "trigger jobs_job_remember",
    ),
)
