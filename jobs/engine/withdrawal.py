"""Withdrawal: what was admitted and may not start any more waits in PostgreSQL again.

Nothing that was paid for an admission is given back: it may have used the rate's moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import scopes
from jobs.engine import claims, sql
from jobs.engine.flow import Flow

STALE_AFTER = 2.0
"""Seconds after which an admission at a rate no longer holds; a claim refuses it, too."""
_LIMIT = 1000

_CLOSED = """(j.queue = ANY (%s) OR j.kind = ANY (%s) OR j.tenant = ANY (%s)
  OR j.exclusive_key = ANY (%s) OR j.limit_key = ANY (%s))"""
_HELD = """EXISTS (SELECT 1 FROM jobs_limiter m WHERE m.scope IN ('queue:' || j.queue,
  'kind:' || j.kind, 'key:' || j.kind || '|' || j.limit_key) AND m.closed_until > jobs_clock())"""
_STALE = f"j.flow & {Flow.PACED} > 0 AND j.queued_at <= jobs_clock() - %s * interval '1 s'"

_WITHDRAW = """
WITH l AS MATERIALIZED (SELECT j.id FROM jobs_job j WHERE j.state = 'queued' AND {condition}
  ORDER BY j.id LIMIT %s FOR NO KEY UPDATE OF j SKIP LOCKED)
UPDATE jobs_job j SET state = 'pending', wait = 0, queued_at = NULL, moved_by = %s,
  move_reason = %s
FROM l WHERE j.id = l.id RETURNING j.id, j.state, j.flow
"""


def withdraw(worker: str) -> int:
    """Queued jobs that may not start are pending again."""
    return withdraw_closed(worker) + withdraw_held(worker) + withdraw_stale(worker)


def withdraw_closed(worker: str) -> int:
    """Queued jobs of scopes that are closed now are pending again."""
    closed = sql.rows("SELECT scope FROM jobs_closure WHERE until IS NULL OR until > jobs_clock()")
    if not closed:
        return 0
    names: dict[str, list[str]] = {what: [] for what in scopes.WHATS}
    for what, name in (scopes.split(scope) for (scope,) in closed):
        names[what].append(name)
    return _move(_CLOSED, [*names.values()], worker, "closed before it started")


def withdraw_held(worker: str) -> int:
    """Queued jobs of scopes that a handler has closed for a while are pending again."""
    if not sql.rows("SELECT 1 FROM jobs_limiter WHERE closed_until > jobs_clock() LIMIT 1"):
        return 0
    return _move(_HELD, [], worker, "closed before it started")


def withdraw_stale(worker: str) -> int:
    """Jobs that were admitted at a rate too long ago are pending again."""
    return _move(_STALE, [STALE_AFTER], worker, "its admission went stale")


def withdraw_one(job_id: UUID, by: str, why: str) -> int:
    """The job, where it is queued, is pending again."""
    return _move("j.id = %s", [job_id], by, why)


def _move(condition: str, parameters: Sequence[Any], worker: str, why: str) -> int:
    statement = _WITHDRAW.format(condition=condition)

    def write() -> int:
        with transaction.atomic(using=sql.alias()):
            moved = sql.rows(statement, [*parameters, _LIMIT, worker, why])
            claims.follow(moved)
            return len(moved)

    return sql.repeating(write)
