"""Withdrawal: what was admitted and may not start any more waits in PostgreSQL again."""

from __future__ import annotations

from django.db import transaction

from jobs.engine import claims, sql
from jobs.engine.flow import Flow

STALE_AFTER = 2.0
"""Seconds after which an admission at a rate no longer holds; a claim refuses it, too."""

_NEEDED = """
SELECT EXISTS (SELECT 1 FROM jobs_closure WHERE until IS NULL OR until > jobs_clock())
    OR EXISTS (SELECT 1 FROM jobs_limiter WHERE closed_until > jobs_clock()),
  EXISTS (SELECT 1 FROM jobs_job WHERE state = 'queued' AND flow & %s > 0
    AND queued_at <= jobs_clock() - %s * interval '1 s')
"""

_CLOSED = """(EXISTS (SELECT 1 FROM jobs_closure c WHERE c.scope IN ('queue:' || j.queue,
    'kind:' || j.kind, 'tenant:' || j.tenant, 'key:' || j.exclusive_key)
    AND (c.until IS NULL OR c.until > jobs_clock()))
  OR EXISTS (SELECT 1 FROM jobs_limiter m WHERE m.scope IN ('queue:' || j.queue,
    'kind:' || j.kind, 'key:' || j.kind || ':' || j.limit_key)
    AND m.closed_until > jobs_clock()))"""

# What had been paid for its admission is not given back: it may have used the rate's moment.
_WITHDRAW = f"""
WITH l AS MATERIALIZED (SELECT j.id,
    CASE WHEN {_CLOSED} THEN 'closed before it started' ELSE 'its admission went stale' END AS why
  FROM jobs_job j WHERE j.state = 'queued' AND ({_CLOSED} OR j.flow & %s > 0
    AND j.queued_at <= jobs_clock() - %s * interval '1 s')
  ORDER BY j.id LIMIT %s FOR NO KEY UPDATE OF j SKIP LOCKED)
UPDATE jobs_job j SET state = 'pending', wait = 0, queued_at = NULL, moved_by = %s,
  move_reason = l.why
FROM l WHERE j.id = l.id RETURNING j.id, j.state, j.flow
"""  # noqa: S608 - constant text


def withdraw(worker: str, limit: int = 1000) -> int:
    """Queued jobs of closed scopes, and those admitted too long ago, are pending again."""
    if sql.rows(_NEEDED, [int(Flow.PACED), STALE_AFTER]) == [(False, False)]:
        return 0

    def write() -> int:
        with transaction.atomic(using=sql.alias()):
            moved = sql.rows(_WITHDRAW, [int(Flow.PACED), STALE_AFTER, limit, worker])
            claims.follow(moved)
            return len(moved)

    return sql.repeating(write)
