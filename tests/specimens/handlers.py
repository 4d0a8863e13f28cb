"""Specimen handlers: each does to its worker what its payload says."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time

from django.db import connection, transaction

import jobs
from tests.specimens import (  # noqa: F401 - registers their handlers
    apart,
    internal,
    limited,
    metered,
    parsing,
    stopping,
    telling,
)


class Noop(jobs.Payload, kind="test.noop"):
    data: str = ""


class Echo(jobs.Payload, kind="test.echo"):
    text: str


class Sleep(jobs.Payload, kind="test.sleep"):
    seconds: float


class AsyncSleep(jobs.Payload, kind="test.async_sleep"):
    seconds: float


class Fail(jobs.Payload, kind="test.fail"):
    message: str = "as told"


class Flaky(jobs.Payload, kind="test.flaky"):
    failures: int


class Hang(jobs.Payload, kind="test.hang"):
    how: str


class Die(jobs.Payload, kind="test.die"):
    how: str
    attempts: int = 1000


@jobs.handler(Noop)
def noop(ctx: jobs.Context, payload: Noop) -> None:
    """Does nothing."""


@jobs.handler(Echo)
def echo(ctx: jobs.Context, payload: Echo) -> str:
    return payload.text


@jobs.handler(Sleep)
def sleep(ctx: jobs.Context, payload: Sleep) -> None:
    end = time.monotonic() + payload.seconds
    while (left := end - time.monotonic()) > 0:
        ctx.checkpoint()
        time.sleep(min(left, 0.1))


@jobs.handler(AsyncSleep)
async def async_sleep(ctx: jobs.Context, payload: AsyncSleep) -> None:
    await asyncio.sleep(payload.seconds)


@jobs.handler(Fail, max_attempts=2, backoff=jobs.backoff.Fixed(0.1))
def fail(ctx: jobs.Context, payload: Fail) -> None:
    raise ValueError(payload.message)


@jobs.handler(Flaky, max_attempts=10, backoff=jobs.backoff.Immediate())
def flaky(ctx: jobs.Context, payload: Flaky) -> int:
    if ctx.failures < payload.failures:
        raise ConnectionError(f"failure {ctx.failures + 1} of {payload.failures}")
    return ctx.attempt


@jobs.handler(Hang, timeout=1.0, max_attempts=1)
def hang(ctx: jobs.Context, payload: Hang) -> None:
    """Never returns by itself."""
    if payload.how == "polite":
        while True:
            ctx.checkpoint()
            time.sleep(0.01)
    while True:
        try:
            if payload.how == "spin":
                while True:
                    pass
            if payload.how == "deaf":
                time.sleep(3600)
            if payload.how == "native":
                # PyDLL keeps the interpreter's lock: no other thread of the process runs.
                ctypes.PyDLL(None).sleep(3600)
        except BaseException:  # noqa: S112 - deaf on purpose
            continue


@jobs.handler(Die, max_attempts=3, backoff=jobs.backoff.Immediate())
def die(ctx: jobs.Context, payload: Die) -> None:
    if ctx.attempt > payload.attempts:
        return
    if payload.how == "exit":
        os._exit(3)
    if payload.how == "segfault":
        ctypes.string_at(0)
    os.kill(os.getpid(), signal.SIGKILL)


class Effect(jobs.Payload, kind="test.effect"):
    gate: str = ""


@jobs.handler(Effect, atomic=True, max_attempts=10, backoff=jobs.backoff.Immediate())
def effect(ctx: jobs.Context, payload: Effect) -> None:
    """Leaves one row in ``effects``; behind a gate, waits for the file ``gate.<attempt>``."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO effects (job_id, attempt) VALUES (%s, %s)", [ctx.job_id, ctx.attempt]
        )
    while payload.gate and not os.path.exists(f"{payload.gate}.{ctx.attempt}"):
        time.sleep(0.01)


class Fenced(jobs.Payload, kind="test.fenced"):
    folder: str
    gate: str = ""
    pace: float = 0.0


@jobs.handler(Fenced, max_attempts=5, backoff=jobs.backoff.Immediate())
def fenced(ctx: jobs.Context, payload: Fenced) -> None:
    """Leave one row in ``effects`` by a transaction of its own.

    The first attempt waits at the point that is named as its gate until the folder has a file of
    that name, and takes its time at every point.
    """

    def passes(point: str) -> None:
        if ctx.attempt > 1:
            return
        open(f"{payload.folder}/{ctx.job_id}.{point}", "w").close()
        while payload.gate == point and not os.path.exists(f"{payload.folder}/{point}"):
            time.sleep(0.01)
        time.sleep(payload.pace)

    try:
        with transaction.atomic():
            passes("began")
            with connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO effects (job_id, attempt) VALUES (%s, %s)",
                    [ctx.job_id, ctx.attempt],
                )
            passes("wrote")
            ctx.fence()
            passes("fenced")
    finally:
        open(f"{payload.folder}/{ctx.job_id}.ended.{ctx.attempt}", "w").close()


class Outside(jobs.Payload, kind="test.outside"):
    log: str
    crash: str = ""
    probe: bool = False
    gate: str = ""


@jobs.handler(Outside, max_attempts=5, backoff=jobs.backoff.Immediate())
def outside(ctx: jobs.Context, payload: Outside) -> str:
    """Writes one line to a file, as an effect; the first attempt dies where it is told to."""

    def dies(point: str) -> None:
        if payload.crash == point and ctx.attempt == 1:
            os._exit(3)

    def lines() -> list[str]:
        with open(payload.log) as file:
            return file.read().split()

    def call() -> str:
        while payload.gate and not os.path.exists(payload.gate):
            time.sleep(0.01)
        dies("before it happens")
        with open(payload.log, "a") as file:
            file.write(f"{ctx.attempt}\n")
        dies("after it happened")
        return f"attempt {ctx.attempt}"

    def probe(intent: jobs.effects.Intent) -> jobs.effects.Happened | jobs.effects.NotHappened:
        found = lines()
        return jobs.effects.Happened(f"attempt {found[0]}") if found else jobs.effects.NotHappened()

    outcome: str = ctx.effect("write", call, probe=probe if payload.probe else None)
    dies("after the outcome")
    return outcome


class AsyncOutside(jobs.Payload, kind="test.async_outside"):
    log: str


@jobs.handler(AsyncOutside, max_attempts=2, backoff=jobs.backoff.Immediate())
async def async_outside(ctx: jobs.Context, payload: AsyncOutside) -> str:
    """The same in a coroutine; the first attempt breaks after it happened."""

    async def call() -> None:
        with open(payload.log, "a") as file:
            file.write(f"{ctx.attempt}\n")
        await asyncio.sleep(0.01)
        raise TimeoutError

    async def probe(intent: jobs.effects.Intent) -> jobs.effects.Happened:
        await asyncio.sleep(0.01)
        return jobs.effects.Happened(f"attempt {intent.attempt}")

    async with jobs.breaker("test.async_outside", threshold=9):
        outcome: str = await ctx.effect_async("write", call, probe=probe)
        return outcome


class Noted(jobs.Payload, kind="test.noted"):
    log: str
    seconds: float = 0.0
    fails: bool = False


class NotedOnce(Noted, kind="test.noted_once"):
    pass


@jobs.handler(Noted)
def noted(ctx: jobs.Context, payload: Noted) -> None:
    """The last thing it does is to write its job, attempt and process into a file."""
    time.sleep(payload.seconds)
    with open(payload.log, "a") as file:
        file.write(f"{ctx.job_id}:{ctx.attempt}:{os.getpid()}\n")
    if payload.fails:
        raise jobs.Unrecoverable("as told")


@jobs.handler(NotedOnce, on_lost="in_doubt", timeout=5)
def noted_once(ctx: jobs.Context, payload: NotedOnce) -> None:
    noted(ctx, payload)
