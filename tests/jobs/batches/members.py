"""Members of batches, and the callbacks that came."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import jobs
from tests.jobs.factories import (
    claim_again,
    ended,
    settle,
)
from tests.specimens.handlers import Echo, Noop

CALLBACKS: dict[str, Any] = {n: Echo(text=n) for n in ("on_success", "on_complete", "on_failure")}


def called() -> list[str]:
    found = jobs.Job.objects.filter(kind="test.echo").order_by("created_at", "id")
    return sorted(j.payload["text"] for j in found)


def members(count: int, **options: Any) -> tuple[UUID, list[UUID]]:
    """A sealed batch and its members."""
    with jobs.batch("b", **options) as batch:
        ids = [batch.add(Noop()).id for _ in range(count)]
    return batch.id, ids


def fail(job_id: UUID) -> None:
    settle(ended(claim_again(job_id), "unrecoverable"))
