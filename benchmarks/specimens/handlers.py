"""The measured jobs. Each has a twin in ``benchmarks.plain`` for the baselines."""

from __future__ import annotations

import asyncio
import time

import jobs
from benchmarks import records


class Noop(jobs.Payload, kind="bench.noop"):
    data: str = ""


class Stamp(jobs.Payload, kind="bench.stamp"):
    sent: float


class Sleep(jobs.Payload, kind="bench.sleep"):
    seconds: float


class AsyncSleep(jobs.Payload, kind="bench.async_sleep"):
    seconds: float


class Fail(jobs.Payload, kind="bench.fail"):
    message: str = "as told"


@jobs.handler(Noop)
def noop(ctx: jobs.Context, payload: Noop) -> None:
    records.append(records.NOOP)


@jobs.handler(Stamp)
def stamp(ctx: jobs.Context, payload: Stamp) -> None:
    records.append(records.STAMP, payload.sent)


@jobs.handler(Sleep)
def sleep(ctx: jobs.Context, payload: Sleep) -> None:
    time.sleep(payload.seconds)
    records.append(records.SLEEP)


@jobs.handler(AsyncSleep)
async def async_sleep(ctx: jobs.Context, payload: AsyncSleep) -> None:
    await asyncio.sleep(payload.seconds)
    records.append(records.SLEEP)


@jobs.handler(Fail, max_attempts=10, backoff=jobs.Fixed(3600))
def fail(ctx: jobs.Context, payload: Fail) -> None:
    records.append(records.FAIL)
    raise ValueError(payload.message)
