"""Specimen handlers that are told to stop: each writes down when it began and why it had to end."""

from __future__ import annotations

import asyncio
import threading
import time

import jobs


class Obey(jobs.Payload, kind="test.obey"):
    log: str
    how: str = "checkpoint"
    seconds: float = 60


class Firm(Obey, kind="test.firm"):
    """May be preempted, but not killed for it."""


class Strict(Obey, kind="test.strict"):
    """Has failed when it has outlived its timeout."""


class Urgent(Obey, kind="test.urgent"):
    """Pushes others off its key, and may itself be pushed."""


class Gentle(Obey, kind="test.gentle"):
    """Has long after its timeout before it is killed."""


class Brisk(Obey, kind="test.brisk"):
    """Is killed soon after its timeout."""


class AsyncObey(Obey, kind="test.async_obey"):
    """The same in a coroutine."""


def note(ctx: jobs.Context, payload: Obey, word: str) -> None:
    """One line: job, attempt, word and moment."""
    with open(payload.log, "a") as file:
        file.write(f"{ctx.job_id} {ctx.attempt} {word} {time.monotonic()}\n")


@jobs.handler(Obey, preemptible=True, killable=True, backoff=jobs.backoff.Immediate())
@jobs.handler(Firm, preemptible=True, backoff=jobs.backoff.Immediate())
@jobs.handler(Gentle, grace=60)
@jobs.handler(Brisk, grace=0.3, max_attempts=1)
@jobs.handler(Strict, on_timeout="fail", backoff=jobs.backoff.Immediate())
@jobs.handler(Urgent, preempts=True, preemptible=True, backoff=jobs.backoff.Immediate())
def obey(ctx: jobs.Context, payload: Obey) -> str:
    """Works until it is told to stop; how it obeys is in its payload."""
    note(ctx, payload, "begun")
    if payload.how == "deaf":
        deaf_until(time.monotonic() + payload.seconds)
    elif payload.how == "callback":
        called = threading.Event()
        ctx.on_stop(lambda _: called.set())
        called.wait(payload.seconds)
    else:
        end = time.monotonic() + payload.seconds
        while not ctx.should_stop() and time.monotonic() < end:
            time.sleep(0.005)
    note(ctx, payload, ctx.signal.reason or "done")
    if payload.how == "checkpoint" or payload.how == "callback":
        ctx.checkpoint()
    return ctx.signal.reason


def deaf_until(end: float) -> None:
    while time.monotonic() < end:
        try:
            time.sleep(0.05)
        except BaseException:  # noqa: S112 - deaf on purpose
            continue


@jobs.handler(AsyncObey, preemptible=True, backoff=jobs.backoff.Immediate())
async def async_obey(ctx: jobs.Context, payload: AsyncObey) -> None:
    note(ctx, payload, "begun")
    try:
        if payload.how == "signal":
            await asyncio.wait_for(ctx.signal.wait(), payload.seconds)
        else:
            await asyncio.sleep(payload.seconds)
    finally:
        note(ctx, payload, ctx.signal.reason or "done")
    ctx.checkpoint()
