"""The usual questions about jobs: ``Job.objects.failed().of_kind("email.send").newest(20)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models import Q

from jobs.payloads import Payload
from jobs.states import FINAL_STATES, JobState

if TYPE_CHECKING:
    from jobs.models.job import Job

MOST = 10_000
_HELD_BY_TIME = 1


class JobQuerySet(models.QuerySet["Job"]):
    """Jobs by what they are and how far they are, with two reads that stay short in any table.

    The words mean what they mean in the admin, the API and the metrics.
    """

    def of_kind(self, *kinds: str | type[Payload]) -> Self:
        """Return the jobs of these kinds, each a name or a payload's class."""
        names = [kind if isinstance(kind, str) else kind.kind for kind in kinds]
        return self.filter(kind__in=names)

    def of_queue(self, *queues: str) -> Self:
        """Return the jobs of these queues."""
        return self.filter(queue__in=queues)

    def for_tenant(self, tenant: str) -> Self:
        """Return the jobs of the tenant."""
        return self.filter(tenant=tenant)

    def waiting(self) -> Self:
        """Return the jobs that are due and have not begun."""
        return self.filter(
            Q(state=JobState.QUEUED) | Q(state=JobState.PENDING) & ~Q(wait=_HELD_BY_TIME)
        )

    def scheduled(self) -> Self:
        """Return the jobs that wait for their first time to come."""
        return self.filter(state=JobState.PENDING, wait=_HELD_BY_TIME, failures=0)

    def retrying(self) -> Self:
        """Return the jobs that have failed and wait for their next attempt."""
        return self.filter(state=JobState.PENDING, wait=_HELD_BY_TIME, failures__gt=0)

    def running(self) -> Self:
        """Return the jobs that a worker executes."""
        return self.filter(state=JobState.RUNNING)

    def succeeded(self) -> Self:
        """Return the jobs that have succeeded."""
        return self.filter(state=JobState.SUCCEEDED)

    def failed(self) -> Self:
        """Return the jobs that have failed for good."""
        return self.filter(state=JobState.FAILED)

    def unfinished(self) -> Self:
        """Return the jobs that have not ended."""
        return self.filter(state__in=sorted(set(JobState) - FINAL_STATES))

    def newest(self, limit: int = 100) -> list[Job]:
        """Return up to ``limit`` jobs, newest first; raise TooSlow after three seconds."""
        from jobs.operate.reads import bounded

        if not 1 <= limit <= MOST:
            raise ValueError(f"newest: limit must lie between 1 and {MOST}, got {limit!r}")
        with bounded():
            return list(self.order_by("-created_at", "-id")[:limit])

    def count_up_to(self, most: int = MOST) -> int:
        """Return how many there are, counting no further than ``most``; raise TooSlow likewise."""
        from jobs.operate.reads import bounded

        with bounded():
            return self.order_by()[:most].count()
