"""Waiting for a job to end, on behalf of a request."""

from __future__ import annotations

import time
from threading import BoundedSemaphore
from uuid import UUID

from jobs.engine import sql
from jobs.states import FINAL_STATES

AT_ONCE = 8
"""Requests of a process that may wait at the same time; further ones are answered at once."""
_FIRST, _LONGEST = 0.02, 0.5
_waiting = BoundedSemaphore(AT_ONCE)


def ended(job_id: UUID, seconds: float) -> bool:
    """Whether the job has ended, now or within the seconds.

    Looks again and again, in the transaction of the request: each look sees what is committed, and
    nothing is locked meanwhile.
    """
    until = time.monotonic() + seconds
    if _has_ended(job_id):
        return True
    if seconds <= 0 or not _waiting.acquire(blocking=False):
        return False
    try:
        pause = _FIRST
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            if _has_ended(job_id):
                return True
            pause = min(pause * 1.5, _LONGEST)
        return False
    finally:
        _waiting.release()


def _has_ended(job_id: UUID) -> bool:
    """Of a job that is gone there is nothing to wait for, either."""
    found = sql.rows("SELECT state FROM jobs_job WHERE id = %s", [job_id])
    return not found or found[0][0] in FINAL_STATES
