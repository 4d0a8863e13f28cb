"""Retrying: the same job is given another chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from jobs.backoff import Duration
from jobs.clockwork import aware
from jobs.engine import keys, sql
from jobs.engine.drafts import EARLIEST, LATEST, checked_duration
from jobs.engine.flow import PRIORITY_STEP_MS
from jobs.engine.pushes import after_commit
from jobs.errors import InvalidOption, KeyTaken, NotAllowed, UnknownJob
from jobs.operate.lineages import unfinished
from jobs.operate.parameters import At, Attempts, Reset
from jobs.operate.permissions import RETRY_JOB
from jobs.operate.targets import JOB
from jobs.operate.verbs import Many, acting, verb
from jobs.principals import By
from jobs.states import RETRYABLE_STATES

# The budget is raised so that at least ``attempts`` more failures are allowed; the counters of
# the past stay. Crashes start over: a person has looked.
_RETRY = """
UPDATE jobs_job SET state = 'pending', finished_at = NULL, reason = '',
  wait = CASE WHEN %s::timestamptz > jobs_clock() THEN 1 ELSE 0 END,
  run_at = coalesce(%s::timestamptz, jobs_clock()),
  rank = (extract(epoch FROM coalesce(%s::timestamptz, jobs_clock())) * 1000)::bigint
    - priority * %s,
  max_attempts = CASE WHEN %s THEN max_attempts ELSE greatest(max_attempts, failures + %s) END,
  failures = CASE WHEN %s THEN 0 ELSE failures END,
  crashes = 0, releases = 0,
  attempt = greatest(attempt, failures),
  expires_at = coalesce(%s::timestamptz, jobs_clock() + %s * interval '1 s',
    CASE WHEN expires_at <= jobs_clock() THEN NULL ELSE expires_at END),
  cancel_requested_at = NULL, cancel_reason = '', cancel_by = '', cancel_forced = false,
  moved_by = %s, move_reason = %s
WHERE id = ANY(%s)
"""

_REOPEN = """
UPDATE jobs_batch SET state = CASE WHEN state = 'done' THEN 'sealed' ELSE state END,
  finished_at = NULL, generation = generation + CASE WHEN state = 'done' THEN 1 ELSE 0 END,
  failed = failed - %s, cancelled = cancelled - %s, expired = expired - %s
WHERE id = %s
"""


@verb(
    "job.retry",
    on=JOB,
    permission=RETRY_JOB,
    many=Many(RETRYABLE_STATES, frozenset({"attempts", "reset"}), runs=True),
)
def retry(
    job_id: UUID,
    *,
    by: By,
    reason: str = "",
    attempts: Attempts = None,
    reset: Reset = False,
    at: At = None,
    expires: Duration | datetime | None = None,
) -> None:
    """Run a failed, cancelled or expired job again.

    It may fail ``attempts`` more times at least. With ``reset`` its budget is as it was at first;
    ``at`` holds it back until then. It expires at ``expires`` or so long from now; else when it
    would have, or never if that is over. Its open dead letter is closed as retried, and its batch
    is open to callbacks again. Raises NotAllowed in any other state and where a replay of it is
    unfinished, KeyTaken where another unfinished job has its unique key.
    """
    with acting(retry, job_id, by=by, reason=reason) as act:
        state = carry_out(
            job_id, by=act.name, reason=act.reason, attempts=attempts, reset=reset, at=at,
            expires=expires,
        )  # fmt: skip
        act.changed({"state": state}, {"state": "pending"})
        if reset or attempts is not None:
            act.note(attempts=attempts, reset=reset)


def carry_out(
    job_id: UUID,
    *,
    by: str,
    reason: str = "",
    attempts: int | None = None,
    reset: bool = False,
    at: datetime | None = None,
    expires: Duration | datetime | None = None,
) -> str:
    """Retry without permission check and audit; return the state before.

    For callers that have done both.
    """
    more, start = _checked(attempts, reset, at)
    end = _end(expires)
    with transaction.atomic(using=sql.alias()):
        state, batch, kind, tenant, key, lineage = _locked(job_id)
        _check_state(job_id, state, lineage)
        try:
            with transaction.atomic(using=sql.alias()):
                why = reason or "retry"
                sql.run(_RETRY, [*start, reset, more, reset, *end, by, why, [job_id]])
        except IntegrityError as error:
            other = keys.holder(kind, tenant, key) if key else None
            if other is None:
                raise
            raise KeyTaken(job_id, key, other) from error
        close_dead_letters([job_id], "retried", by, reason)
        if batch is not None:
            _reopen([(batch, state)])
    after_commit(None)
    return state


_LOCK_PLAIN = """
SELECT id, state, batch_id FROM jobs_job
WHERE id = ANY(%s) AND state = ANY(%s) AND unique_key IS NULL AND lineage IS NULL
ORDER BY id FOR NO KEY UPDATE
"""


def retry_many(
    ids: Sequence[UUID],
    *,
    by: str,
    reason: str = "",
    attempts: int | None = None,
    reset: bool = False,
) -> set[UUID]:
    """The same for many, in a few statements; answers which of them were retried.

    Jobs with a unique key or replays may meet others of their sort: those are left for
    ``carry_out``, as are those in states that cannot be retried.
    """
    more, start = _checked(attempts, reset, None)
    with transaction.atomic(using=sql.alias()):
        locked = sql.rows(_LOCK_PLAIN, [list(ids), sorted(RETRYABLE_STATES)])
        if not locked:
            return set()
        plain = [row[0] for row in locked]
        why = reason or "retry"
        sql.run(_RETRY, [*start, reset, more, reset, *_end(None), by, why, plain])
        close_dead_letters(plain, "retried", by, reason)
        _reopen((batch, state) for _, state, batch in locked if batch is not None)
    after_commit(None)
    return set(plain)


def _reopen(ended: Iterable[tuple[UUID, str]]) -> None:
    """The batches wait again for members that had ended so."""
    counts = Counter(ended)
    for batch in sorted({batch for batch, _ in counts}):
        numbers = [counts[batch, s] for s in ("failed", "cancelled", "expired")]
        sql.run(_REOPEN, [*numbers, batch])


def _check_state(job_id: UUID, state: str, lineage: UUID | None) -> None:
    if state not in RETRYABLE_STATES:
        raise NotAllowed("retry", job_id, state, sorted(RETRYABLE_STATES))
    if lineage is not None and (other := unfinished(lineage)):
        raise NotAllowed("retry", job_id, f"succeeded by {other}, which is unfinished", [])


def _checked(attempts: object, reset: object, at: datetime | None) -> tuple[int, list[object]]:
    """How many attempts more, and how the start is written."""
    if not isinstance(reset, bool):
        raise InvalidOption("reset", f"must be True or False, got {reset!r}")
    if reset and attempts is not None:
        raise InvalidOption("attempts", "goes without reset")
    if attempts is None:
        attempts = 1
    if not isinstance(attempts, int) or isinstance(attempts, bool) or not 1 <= attempts <= 1000:
        raise InvalidOption("attempts", f"must be a whole number from 1 to 1000, got {attempts!r}")
    if at is not None and not EARLIEST <= aware("at", at) <= LATEST:
        raise InvalidOption("at", f"must lie between {EARLIEST.year} and {LATEST.year}")
    return attempts, [at, at, at, PRIORITY_STEP_MS]


def _end(expires: Duration | datetime | None) -> list[object]:
    """When it expires: a moment, or seconds from now."""
    if isinstance(expires, datetime):
        if not EARLIEST <= aware("expires", expires) <= LATEST:
            raise InvalidOption("expires", f"must lie between {EARLIEST.year} and {LATEST.year}")
        return [expires, None]
    return [None, None if expires is None else checked_duration("expires", expires, 0.001)]


_CLOSE = """
WITH l AS MATERIALIZED (SELECT id FROM jobs_deadletter WHERE job_id = ANY(%s) AND state = 'open'
  ORDER BY id FOR NO KEY UPDATE)
UPDATE jobs_deadletter d SET state = %s, closed_at = jobs_clock(), moved_by = %s, move_reason = %s
FROM l WHERE d.id = l.id
"""


def close_dead_letters(ids: Sequence[UUID], state: str, by: str, reason: str) -> None:
    """The open dead letters of these jobs have been decided upon."""
    sql.run(_CLOSE, [list(ids), state, by, reason or state])


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
