"""Why a job does not run: every reason that holds now, as data and in words. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from jobs.engine import sql
from jobs.errors import InvalidOption
from jobs.models import Job
from jobs.operate.explain.lives import ended, running
from jobs.operate.explain.reasons import Explanation, Reason, reason
from jobs.operate.explain.waiting import surroundings, turn, waiting
from jobs.operate.phrases import say
from jobs.principals import EVERYTHING, Scope
from jobs.states import FINAL_STATES, JobState

__all__ = ["Explanation", "Reason", "explain"]


def explain(job_id: UUID, scope: Scope = EVERYTHING) -> Explanation:
    """Why the job is not running, or that it is, or how it ended.

    Where others are in the way, those outside the scope are not counted, nor are the words shown
    with which somebody has closed more than the scope.
    """
    if not isinstance(job_id, UUID):
        raise InvalidOption("job_id", f"must be a UUID, got {job_id!r}")
    job = Job.objects.using(sql.alias()).filter(pk=job_id).first()
    if job is None:
        words = say("there is no job of this id: it never was, or its row is gone")
        return Explanation(job_id, None, (reason("not_found", words),))
    [(now,)] = sql.rows("SELECT jobs_clock()")
    return Explanation(job_id, job.state, tuple(_reasons(job, now, scope)))


def _reasons(job: Job, now: datetime, scope: Scope) -> Iterator[Reason]:
    if job.state in FINAL_STATES:
        yield from ended(job)
        return
    if job.state == JobState.RUNNING:
        yield from running(job, now)
        return
    found = list(waiting(job, now, scope))
    yield from found
    if job.state == JobState.BLOCKED:
        return
    missing = list(surroundings(job))
    yield from missing
    if not (found or missing) or job.state == JobState.QUEUED:
        yield turn(job, scope)
