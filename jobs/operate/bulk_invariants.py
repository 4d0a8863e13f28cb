"""The invariants of bulk operations.

They follow the rules of ``jobs.operate.invariants``.
"""

from __future__ import annotations

from jobs.operate.invariants import Invariant

_BY_HAND = "find what has written to these tables directly and repair the row"

BULK_INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "bulk_counts_its_items",
        "The counters of a bulk operation (done, skipped, failed, total) match its items.",
        """
WITH newest AS MATERIALIZED (SELECT * FROM jobs_bulk ORDER BY created_at DESC, id DESC LIMIT 20),
counted AS (SELECT bulk_id, count(*) AS total, count(*) FILTER (WHERE state = 'done') AS done,
    count(*) FILTER (WHERE state = 'skipped') AS skipped,
    count(*) FILTER (WHERE state = 'failed') AS failed
  FROM (SELECT bulk_id, state FROM jobs_bulkitem WHERE bulk_id IN (SELECT id FROM newest
    WHERE total <= %(depth)s * 10)) AS i GROUP BY 1)
SELECT b.id::text, format('counts %%s done, %%s skipped, %%s failed of %%s; items: %%s, %%s, %%s '
  'of %%s', b.done, b.skipped, b.failed, b.total, coalesce(c.done, 0), coalesce(c.skipped, 0),
  coalesce(c.failed, 0), coalesce(c.total, 0))
FROM newest b LEFT JOIN counted c ON c.bulk_id = b.id
WHERE b.total <= %(depth)s * 10 AND (b.done, b.skipped, b.failed, b.total)
  <> (coalesce(c.done, 0), coalesce(c.skipped, 0), coalesce(c.failed, 0), coalesce(c.total, 0))
""",
        _BY_HAND,
        "items and counters are written by one transaction",
    ),
    Invariant(
        "bulk_done_has_none_waiting",
        "No item of a finished bulk operation is still waiting.",
        """
SELECT b.id::text, 'is done, item ' || i.id::text || ' waits' FROM jobs_bulk b
CROSS JOIN LATERAL (SELECT id FROM jobs_bulkitem
  WHERE bulk_id = b.id AND state = 'waiting' LIMIT 1) AS i
WHERE b.state = 'done'
""",
        _BY_HAND,
        "the last step looks for waiting items in the transaction that ends the operation",
    ),
    Invariant(
        "bulk_is_carried",
        "A bulk operation that is not finished has a job that continues it.",
        """
SELECT b.id::text, b.state || ', without a job that carries it on' FROM jobs_bulk b
WHERE b.state IN ('gathering', 'running', 'canary')
  AND b.created_at < jobs_clock() - %(stuck)s * interval '1 s'
  AND NOT EXISTS (SELECT 1 FROM jobs_job j WHERE j.kind = 'jobs.bulk' AND j.tenant = ''
    AND j.unique_key = b.id::text AND j.state IN ('blocked', 'pending', 'queued', 'running'))
""",
        "continue it (manage.py jobs bulk proceed) or abort it",
        "the operation and its job are written in one transaction; only cancelling the job, or "
        "its failure, separates them",
    ),
)
