"""Specimen handlers under limits."""

from __future__ import annotations

import time

import jobs
from jobs.limits import Limit


class Limited(jobs.Payload, kind="test.limited"):
    seconds: float = 0.01


class Paced(jobs.Payload, kind="test.paced"):
    pass


class Busy(jobs.Payload, kind="test.busy"):
    seconds: float = 1.0


@jobs.handler(Limited, concurrency=4, per_key=Limit(at_once=2))
def limited(ctx: jobs.Context, payload: Limited) -> None:
    time.sleep(payload.seconds)


@jobs.handler(Paced, rate="50/s", burst=5)
def paced(ctx: jobs.Context, payload: Paced) -> None:
    """Does nothing, but not too often."""


@jobs.handler(Busy)
def busy(ctx: jobs.Context, payload: Busy) -> None:
    """The provider is busy at the first attempt."""
    if ctx.attempt == 1:
        raise jobs.RateLimited(payload.seconds)
