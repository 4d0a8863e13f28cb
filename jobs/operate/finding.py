"""Finding one job by its id."""

from __future__ import annotations

from uuid import UUID

from jobs.engine import sql
from jobs.errors import UnknownJob
from jobs.models import Job


def get(job_id: UUID | str) -> Job:
    """Return the job; raise UnknownJob where there is none, or where this is no id."""
    try:
        wanted = job_id if isinstance(job_id, UUID) else UUID(job_id)
        return Job.objects.using(sql.alias()).get(pk=wanted)
    except (ValueError, Job.DoesNotExist):
        raise UnknownJob(job_id) from None
