"""A moment to look back from, and what a sweep leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from jobs.engine import retention
from jobs.models import DeadLetter, Job

SetClock = Callable[[datetime | None], None]
START = datetime(2040, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
KEEPS = {"succeeded": 7, "failed": 90, "cancelled": 30, "expired": 30}
"""Days, by the defaults."""


def sweep(**options: Any) -> Counter[str]:
    total: Counter[str] = Counter()
    for portion in retention.sweep(**options):
        total.update(portion.rows)
    return +total


def left() -> set[UUID]:
    return set(Job.objects.values_list("pk", flat=True))


def an_open_letter(mine: UUID) -> None:
    DeadLetter.objects.create(
        job_id=mine, kind="k", queue="q", attempt=1, reason="r", fingerprint="f",
        opened_at=START, expires_at=START + 2000 * DAY,
    )  # fmt: skip
