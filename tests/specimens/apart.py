"""Specimen handlers in processes of their own: each does to it what its payload says."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from typing import IO, Any

from django.db import connection, transaction

import jobs
from jobs import metrics
from tests.specimens.stopping import deaf_until


class Apart(jobs.Payload, kind="test.apart"):
    how: str
    seconds: float = 30.0
    secret: jobs.Sensitive[str] = ""


class ApartAsync(jobs.Payload, kind="test.apart_async"):
    how: str = ""


class ApartAtomic(jobs.Payload, kind="test.apart_atomic"):
    how: str = ""


@jobs.handler(
    Apart,
    isolation="process",
    memory="256MB",
    cpu=2,
    files=64,
    timeout=20,
    max_attempts=1,
    crash_limit=2,
    preemptible=True,
    killable=True,
    backoff=jobs.backoff.Immediate(),
)
def apart(ctx: jobs.Context, payload: Apart) -> Any:
    """Does what no neighbour may feel."""
    do = _WAYS.get(payload.how)
    return do(ctx, payload) if do else payload.how


def _spin(ctx: jobs.Context, payload: Apart) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


def _sleep(ctx: jobs.Context, payload: Apart) -> str:
    end = time.monotonic() + payload.seconds
    while time.monotonic() < end:
        ctx.checkpoint()
        time.sleep(0.01)
    return "slept"


def _bomb(ctx: jobs.Context, payload: Apart) -> int:
    return len(bytearray(2**30))


def _open_many(ctx: jobs.Context, payload: Apart) -> int:
    files: list[IO[str]] = []
    try:
        while len(files) < 1000:
            files.append(open("/dev/null"))  # noqa: SIM115 - so many that it fails
    finally:
        for file in files:
            file.close()
    return len(files)


counted = metrics.counter("specimen_apart_total", "Isolated specimens that used their context.")


def _tell(ctx: jobs.Context, payload: Apart) -> dict[str, Any]:
    """Uses everything that a context offers."""
    ctx.log.info("the secret is %s", payload.secret)
    ctx.progress(1, 2, "half way")
    made = ctx.effect("once", lambda: os.getpid())
    with transaction.atomic():
        ctx.fence()
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO effects (job_id, attempt) VALUES (%s, %s)", [ctx.job_id, ctx.attempt]
            )
    ctx.emit("specimen.apart", {"attempt": ctx.attempt})
    counted.inc()
    limits = [resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_CORE]
    return {
        "pid": os.getpid(),
        "effect": made,
        "limits": [resource.getrlimit(limit)[0] for limit in limits],
        "secret": payload.secret,
    }


def _fail(ctx: jobs.Context, payload: Apart) -> None:
    ctx.log.info("about to fail")
    try:
        raise KeyError("the cause")
    except KeyError as error:
        raise ValueError(f"as told, with {payload.secret}") from error


def _orphan(ctx: jobs.Context, payload: Apart) -> str:
    """Leave a process behind that would not end by itself."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code])
    ctx.progress(child.pid)
    deaf_until(time.monotonic() + payload.seconds)
    return "left it"


_WAYS: dict[str, Any] = {
    "exit": lambda ctx, payload: os._exit(0),
    "segfault": lambda ctx, payload: ctypes.string_at(0),
    "kill": lambda ctx, payload: os.kill(os.getpid(), signal.SIGKILL),
    "spin": _spin,
    "deaf": lambda ctx, payload: deaf_until(time.monotonic() + payload.seconds),
    "sleep": _sleep,
    "bomb": _bomb,
    "files": _open_many,
    "tell": _tell,
    "fail": _fail,
    "orphan": _orphan,
    "large": lambda ctx, payload: "x" * 60_000,
    "strange": lambda ctx, payload: object(),
}


@jobs.handler(ApartAsync, isolation="process", timeout=20, max_attempts=1)
async def apart_async(ctx: jobs.Context, payload: ApartAsync) -> int:
    if payload.how == "wait":
        await asyncio.sleep(60)
    await asyncio.sleep(0)
    return os.getpid()


@jobs.handler(ApartAtomic, isolation="process", atomic=True, max_attempts=1)
def apart_atomic(ctx: jobs.Context, payload: ApartAtomic) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO effects (job_id, attempt) VALUES (%s, %s)", [ctx.job_id, ctx.attempt]
        )
    if payload.how == "die":
        os._exit(1)
    return os.getpid()
