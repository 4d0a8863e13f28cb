"""A fleet at noon, and the question why."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from jobs.operate.explain import Reason, explain

SetClock = Callable[[datetime | None], None]
NOON = datetime(2040, 1, 2, 12, tzinfo=UTC)


def why(job_id: UUID) -> Reason:
    """The only reason."""
    [reason] = explain(job_id).reasons
    return reason
