"""Retrying: the same job is given another chance."""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError, transaction

from jobs.engine import keys, sql
from jobs.engine.flow import PRIORITY_STEP_MS
from jobs.engine.pushes import after_commit
from jobs.errors import InvalidOption, KeyTaken, NotAllowed, UnknownJob
from jobs.operate.lineages import unfinished
from jobs.states import RETRYABLE_STATES

# The budget is raised so that at least ``attempts`` more failures are allowed; the counters of
# the past stay. Crashes begin anew: a person has looked.
_RETRY = """
UPDATE jobs_job SET state = 'pending', finished_at = NULL, reason = '', wait = 0,
  run_at = jobs_clock(), rank = (extract(epoch FROM jobs_clock()) * 1000)::bigint - priority * %s,
  max_attempts = greatest(max_attempts, failures + %s), crashes = 0, releases = 0,
  attempt = greatest(attempt, failures),
  expires_at = CASE WHEN expires_at <= jobs_clock() THEN NULL ELSE expires_at END,
  cancel_requested_at = NULL, cancel_reason = '', cancel_by = '', cancel_forced = false,
  moved_by = %s, move_reason = %s
WHERE id = %s
"""

_REOPEN = """
UPDATE jobs_batch SET state = CASE WHEN state = 'done' THEN 'sealed' ELSE state END,
  finished_at = NULL, generation = generation + CASE WHEN state = 'done' THEN 1 ELSE 0 END,
  failed = failed - %s, cancelled = cancelled - %s, expired = expired - %s
WHERE id = %s
"""


def retry(job_id: UUID, *, by: str, reason: str = "", attempts: int = 1) -> None:
    """The failed, cancelled or expired job waits for another run, with ``attempts`` more at least.

    Its open dead letter is closed as retried, and its batch is open to callbacks again. Raises
    NotAllowed in any other state and where a replay of it is unfinished, KeyTaken where another
    unfinished job has its unique key.
    """
    if not isinstance(attempts, int) or isinstance(attempts, bool) or not 1 <= attempts <= 1000:
        raise InvalidOption("attempts", f"must be a whole number from 1 to 1000, got {attempts!r}")
    with transaction.atomic(using=sql.alias()):
        state, batch, kind, tenant, key, lineage = _locked(job_id)
        if state not in RETRYABLE_STATES:
            raise NotAllowed("retry", job_id, state, sorted(RETRYABLE_STATES))
        if lineage is not None and (other := unfinished(lineage)):
            raise NotAllowed("retry", job_id, f"succeeded by {other}, which is unfinished", [])
        try:
            with transaction.atomic(using=sql.alias()):
                sql.run(_RETRY, [PRIORITY_STEP_MS, attempts, by, reason or "retry", job_id])
        except IntegrityError as error:
            other = keys.holder(kind, tenant, key) if key else None
            if other is None:
                raise
            raise KeyTaken(job_id, key, other) from error
        close_dead_letter(job_id, "retried", by, reason)
        if batch is not None:
            counted = [int(state == s) for s in ("failed", "cancelled", "expired")]
            sql.run(_REOPEN, [*counted, batch])
    after_commit(None)


def close_dead_letter(job_id: UUID, state: str, by: str, reason: str) -> None:
    """The job's open dead letter, if there is one, has been decided upon."""
    sql.run(
        "UPDATE jobs_deadletter SET state = %s, closed_at = jobs_clock(), moved_by = %s, "
        "move_reason = %s WHERE job_id = %s AND state = 'open'",
        [state, by, reason or state, job_id],
    )


def _locked(job_id: UUID) -> tuple[str, UUID | None, str, str, str | None, UUID | None]:
    found = sql.rows(
        "SELECT state, batch_id, kind, tenant, unique_key, lineage FROM jobs_job WHERE id = %s "
        "FOR NO KEY UPDATE",
        [job_id],
    )
    if not found:
        raise UnknownJob(job_id)
    state, batch, kind, tenant, key, lineage = found[0]
    return state, batch, kind, tenant, key, lineage
