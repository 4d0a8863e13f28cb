"""The measured jobs whose kinds have limits."""

from __future__ import annotations

import time

import jobs
from benchmarks import records


class Roomy(jobs.Payload, kind="bench.roomy"):
    """Of a kind whose limit is never reached."""


class OneAtATime(jobs.Payload, kind="bench.one_at_a_time"):
    seconds: float


class EightAtOnce(jobs.Payload, kind="bench.eight_at_once"):
    seconds: float


class OnePerKey(jobs.Payload, kind="bench.one_per_key"):
    seconds: float


@jobs.handler(Roomy, concurrency=100_000)
def roomy(ctx: jobs.Context, payload: Roomy) -> None:
    records.append(records.NOOP)


@jobs.handler(OneAtATime, concurrency=1)
def one_at_a_time(ctx: jobs.Context, payload: OneAtATime) -> None:
    began = time.monotonic()
    time.sleep(payload.seconds)
    records.append(records.SPAN, began)


@jobs.handler(EightAtOnce, concurrency=8)
def eight_at_once(ctx: jobs.Context, payload: EightAtOnce) -> None:
    began = time.monotonic()
    time.sleep(payload.seconds)
    records.append(records.SPAN, began)


@jobs.handler(OnePerKey, per_key=jobs.Limit(at_once=1))
def one_per_key(ctx: jobs.Context, payload: OnePerKey) -> None:
    began = time.monotonic()
    time.sleep(payload.seconds)
    records.append(records.SPAN, began)
