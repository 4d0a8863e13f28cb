"""Cancelling: a waiting job ends at once, a running one is asked to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from jobs.engine import claims, sql
from jobs.errors import NotAllowed, UnknownJob
from jobs.operate.parameters import Force
from jobs.operate.permissions import CANCEL_JOB
from jobs.operate.targets import JOB
from jobs.operate.verbs import Many, acting, verb
from jobs.principals import By
from jobs.states import FINAL_STATES, JobState


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What became of a cancel: the job's state, and whether it still has to obey."""

    id: UUID
    state: JobState
    requested: bool


# All of them in one order, before anything that follows a move locks more.
_LOCK = """
SELECT id FROM jobs_job WHERE id = ANY(%s)
  AND state IN ('blocked', 'pending', 'queued', 'running') ORDER BY id FOR NO KEY UPDATE
"""

_WAITING = """
UPDATE jobs_job j SET state = 'cancelled', finished_at = jobs_clock(), queued_at = NULL,
  cancel_requested_at = jobs_clock(), cancel_reason = %s, cancel_by = %s, moved_by = %s,
  move_reason = %s
WHERE j.id = ANY(%s) AND j.state IN ('blocked', 'pending', 'queued')
RETURNING j.id, j.state, j.flow
"""

_RUNNING = """
UPDATE jobs_job j SET cancel_requested_at = coalesce(j.cancel_requested_at, jobs_clock()),
  cancel_reason = %s, cancel_by = %s, cancel_forced = j.cancel_forced OR %s
WHERE j.id = ANY(%s) AND j.state = 'running' RETURNING j.id
"""


@verb(
    "job.cancel",
    on=JOB,
    permission=CANCEL_JOB,
    many=Many(frozenset(JobState) - FINAL_STATES, frozenset({"force"})),
)
def cancel(job_id: UUID, *, by: By, reason: str = "", force: Force = False) -> Cancelled:
    """Cancel a waiting job at once; ask a running one to stop.

    A running job stops at its next checkpoint; ``force`` ends its process after the grace time
    where it does not. One that finishes first stays succeeded. Raises NotAllowed when it has
    ended already.
    """

    def write() -> Cancelled:
        with acting(cancel, job_id, by=by, reason=reason) as act:
            done = carry_out(job_id, by=act.name, reason=act.reason, force=force)
            act.note(force=force, requested=done.requested)
            return done

    return sql.repeating(write)


def carry_out(job_id: UUID, *, by: str, reason: str = "", force: bool = False) -> Cancelled:
    """Cancel without permission check and audit; for callers that have done both."""
    found = cancel_many([job_id], by=by, reason=reason, force=force)
    if job_id in found:
        return found[job_id]
    state = sql.rows("SELECT state FROM jobs_job WHERE id = %s", [job_id])
    if not state:
        raise UnknownJob(job_id)
    raise NotAllowed("cancel", job_id, state[0][0], sorted(set(JobState) - FINAL_STATES))


def cancel_many(
    ids: Sequence[UUID], *, by: str, reason: str = "", force: bool = False
) -> dict[UUID, Cancelled]:
    """Cancel many likewise; those that have ended already are missing from the result."""
    why = reason or "cancelled"

    def write() -> tuple[list[sql.Row], list[sql.Row]]:
        with transaction.atomic(using=sql.alias()):
            held = [row[0] for row in sql.bound_rows(_LOCK, [list(ids)])]
            asked = sql.bound_rows(_RUNNING, [reason, by, force, held])
            moved = sql.bound_rows(_WAITING, [reason, by, by, why, held])
            claims.follow(moved)
            return moved, asked

    moved, asked = sql.repeating(write)
    found = {job_id: Cancelled(job_id, JobState.CANCELLED, False) for job_id, _, _ in moved}
    found.update({job_id: Cancelled(job_id, JobState.RUNNING, True) for (job_id,) in asked})
    return found
