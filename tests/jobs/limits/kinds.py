"""Kinds with limits, and what is admitted of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import jobs
from jobs import registry
from jobs.engine.dispatch import admit, know_queues
from tests.jobs.factories import (
    claim_again,
    sql,
    succeed,
)

NOW = datetime(2040, 5, 6, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SetClock = Callable[[datetime | None], None]


class A(jobs.Payload, kind="test.a"):
    n: int = 0


class B(jobs.Payload, kind="test.b"):
    n: int = 0


Declare = Callable[..., None]


def forget(kind: str) -> None:
    if registry.find(kind) is not None:
        registry.unregister(kind)


def fed(budget: int = 100, queue: str = "default") -> list[UUID]:
    know_queues({queue})
    return admit(queue, budget)


def many(payload: jobs.Payload, number: int, **options: Any) -> list[UUID]:
    return jobs.enqueue_many(jobs.Draft(payload, **options) for _ in range(number))


def limiters() -> dict[str, tuple[Any, ...]]:
    """The rows, without those of kinds that other tests declare."""
    others = {h.kind for h in registry.handlers()} - {A.kind, B.kind}
    found = sql("SELECT scope, at_once, per_second, burst, is_declared FROM jobs_limiter")
    return {s: tuple(rest) for s, *rest in found if s.partition(":")[2] not in others}


def end(job_id: UUID) -> None:
    succeed(claim_again(job_id))
