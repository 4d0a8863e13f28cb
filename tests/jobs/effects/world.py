"""The outside world of a test, and attempts that act upon it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs.context import Context, Signal
from jobs.engine import runner, settler
from jobs.engine.claims import Claim
from jobs.models import Effect
from jobs.registry import get
from tests.jobs.factories import WORKER, a_claim, claim_again, ended, settle


class Outside:
    """The world: counts what was done to it."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, int]:
        self.calls += 1
        return {"number": self.calls}

    def breaking(self, error: BaseException) -> Callable[[], Any]:
        """A call that happens, or not, and then raises."""

        def call() -> Any:
            self.calls += 1
            raise error

        return call


def ctx(claim: Claim, told_to_stop: str = "", peek: Callable[[], str] | None = None) -> Context:
    """The context that the claim's handler would be given."""
    return runner._context(claim, get(claim.kind), Signal(peek or (lambda: told_to_stop)))


def steal(claim: Claim) -> Claim:
    """The next attempt, after this one was lost without a word."""
    settle(ended(claim, "lost"))
    return claim_again(claim.id)


def doubted(outside: Outside) -> Claim:
    """The second attempt of a job whose first one does not know whether its call happened."""
    claim = a_claim()
    with pytest.raises(TimeoutError):
        ctx(claim).effect("send", outside.breaking(TimeoutError("no answer")))
    return steal(claim)


def the_effect(job_id: UUID, key: str = "send") -> Effect:
    return Effect.objects.get(job_id=job_id, key=key)


class Parked(jobs.Payload, kind="test.parked_effect"):
    pass


def run(claim: Claim) -> None:
    """One attempt, from its handler to its end."""
    outcome = runner.run(claim, Signal(str), lambda c, _: asyncio.run(c), WORKER)
    if outcome is not None:
        settler.write([outcome], WORKER)
