"""Putting operations back whose attempt ended without its handler: it was killed, or lost."""

from __future__ import annotations

import jobs
from jobs.events import Event, subscriber
from operations import states
from operations.models import Operation, Phase
from operations.table import OPERATIONS

WAITING = (jobs.JobState.PENDING, jobs.JobState.QUEUED, jobs.JobState.BLOCKED)
KINDS = {one.kind for one in OPERATIONS.values()}
BY = "jobs"


@subscriber("jobs.job.released", "jobs.job.retried", "jobs.job.lost")
def put_back(event: Event) -> None:
    """Move the operation back to ``queued`` while its job waits for the next attempt."""
    payload = event.payload
    if payload.get("kind") not in KINDS:
        return
    # An operation that is locked is being moved already.
    rows = Operation.objects.select_for_update(of=("self",), skip_locked=True)
    row = rows.select_related("agent").filter(pk=payload["job"], phase=Phase.IN_PROGRESS).first()
    job = jobs.Job.objects.filter(pk=payload["job"]).first()
    if row is None or job is None or job.state not in WAITING:
        return
    states.operation.move(row, Phase.QUEUED, by=BY, why=job.history[-1][-1])
