"""Scopes that are closed, and what is admitted all the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time
from typing import Any
from uuid import UUID

from jobs.engine import claims, dispatch
from jobs.models import Blackout, Closure
from jobs.operate import blackouts
from tests.jobs.factories import WORKER, an_executor

SetClock = Callable[[datetime | None], None]
NOON = datetime(2040, 1, 2, 12, tzinfo=UTC)  # a Monday
WHO: dict[str, Any] = {"by": "ann", "reason": "maintenance"}


def admit(queue: str = "default", budget: int = 100) -> set[UUID]:
    dispatch.know_queues({queue})
    return set(dispatch.admit(queue, budget))


def claim(*ids: UUID, queue: str = "default") -> set[UUID]:
    return {c.id for c in claims.claim(queue, ids, an_executor(queue), WORKER)}


def closed() -> dict[str, datetime | None]:
    return dict(Closure.objects.values_list("scope", "until"))


SCOPES = ["queue:default", "kind:test.noop", "tenant:acme", "key:door"]


def a_blackout(scope: str = "queue:default", **options: Any) -> Blackout:
    return blackouts.create(scope, time(12), time(13), **{**WHO, **options})
