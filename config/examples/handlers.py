"""The example jobs: each handler is as short as what it shows."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import jobs


class Greet(jobs.Payload, kind="example.greet"):
    name: str


@jobs.handler(Greet)
def greet(ctx: jobs.Context, payload: Greet) -> str:
    """Succeeds; what it returns is stored as the job's result."""
    return f"Hello, {payload.name}!"


class Report(jobs.Payload, kind="example.report"):
    pages: int


@jobs.handler(Report, timeout=30)
def report(ctx: jobs.Context, payload: Report) -> dict[str, int]:
    """Shows its progress, and stops where it may when it is told to."""
    for page in range(1, payload.pages + 1):
        ctx.checkpoint()
        time.sleep(0.1)
        ctx.progress(page, payload.pages, note="rendering")
    return {"pages": payload.pages}


class Fetch(jobs.Payload, kind="example.fetch"):
    seconds: float


@jobs.handler(Fetch)
async def fetch(ctx: jobs.Context, payload: Fetch) -> float:
    """Waits without holding a thread of its own."""
    await asyncio.sleep(payload.seconds)
    return payload.seconds


class Flaky(jobs.Payload, kind="example.flaky"):
    failures: int


@jobs.handler(Flaky, max_attempts=5, backoff=jobs.Exponential(base=0.3))
def flaky(ctx: jobs.Context, payload: Flaky) -> str:
    """Fails a few times, as networks do, and is tried again a little later each time."""
    if ctx.failures < payload.failures:
        raise ConnectionError("the other side hung up")
    return f"worked at attempt {ctx.attempt}"


class Broken(jobs.Payload, kind="example.broken"):
    pass


@jobs.handler(Broken, max_attempts=2, backoff=jobs.Fixed(0.2))
def broken(ctx: jobs.Context, payload: Broken) -> None:
    """Fails until no attempt is left; then a dead letter waits for somebody's decision."""
    raise ValueError("this never works")


class Reject(jobs.Payload, kind="example.reject"):
    pass


@jobs.handler(Reject, max_attempts=5)
def reject(ctx: jobs.Context, payload: Reject) -> None:
    """Knows that another attempt would be of no use."""
    raise jobs.Unrecoverable("the account is closed")


class Stuck(jobs.Payload, kind="example.stuck"):
    pass


@jobs.handler(Stuck, timeout=1, max_attempts=1)
def stuck(ctx: jobs.Context, payload: Stuck) -> None:
    """Never returns; it is ended from outside."""
    while True:
        time.sleep(60)


class Impatient(jobs.Payload, kind="example.impatient"):
    pass


@jobs.handler(Impatient, max_attempts=1)
def impatient(ctx: jobs.Context, payload: Impatient) -> str:
    """Finds that it is too early, and asks to be called again; that is no failure."""
    if ctx.attempt == 1:
        raise jobs.Snooze(1, "the file is not there yet")
    return "now it was"


class Crash(jobs.Payload, kind="example.crash"):
    pass


@jobs.handler(Crash)
def crash(ctx: jobs.Context, payload: Crash) -> str:
    """Kills its own process at the first attempt; the job runs again within a second."""
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"
