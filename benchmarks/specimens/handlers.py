"""The measured jobs. Those that plain rq can run have a twin in ``benchmarks.plain``."""

from __future__ import annotations

import asyncio
import time

import jobs
from benchmarks import records
from jobs import http

POLL = 0.001
"""Seconds between two looks whether to stop."""


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


class Span(jobs.Payload, kind="bench.span"):
    seconds: float


class Obey(jobs.Payload, kind="bench.obey"):
    pass


class AsyncObey(jobs.Payload, kind="bench.async_obey"):
    pass


class Holder(jobs.Payload, kind="bench.holder"):
    pass


class Tell(jobs.Payload, kind="bench.tell"):
    pass


class Told(jobs.Payload, kind="bench.told"):
    pass


class Rival(jobs.Payload, kind="bench.rival"):
    sent: float


class Order(jobs.Payload, kind="bench.order"):
    order_id: int
    region: str = ""


class Send(jobs.Payload, kind="bench.send"):
    url: str
    text: str


@jobs.handler(Send)
def send(ctx: jobs.Context, payload: Send) -> None:
    """Send a text, once: what a post takes at the least."""

    def call() -> str:
        signed = {"Authorization": "Bearer bench"}
        answer = http.post(payload.url, data={"message": payload.text}, headers=signed, total=15)
        answer.raise_for_status()
        return str(answer.json()["id"])

    ctx.effect("publish", call)


@jobs.handler(Order, searchable=("order_id", "region"))
def order(ctx: jobs.Context, payload: Order) -> None:
    """Found by its number."""


@jobs.handler(Noop)
def noop(ctx: jobs.Context, payload: Noop) -> None:
    records.append(records.NOOP)


@jobs.handler(Tell)
def tell(ctx: jobs.Context, payload: Tell) -> None:
    ctx.emit("bench.told", {"note": "as it was"})
    records.append(records.NOOP)


@jobs.handler(Told, emits=True)
def told(ctx: jobs.Context, payload: Told) -> None:
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


@jobs.handler(Fail, max_attempts=10, backoff=jobs.backoff.Fixed(3600))
def fail(ctx: jobs.Context, payload: Fail) -> None:
    records.append(records.FAIL)
    raise ValueError(payload.message)


@jobs.handler(Span)
def span(ctx: jobs.Context, payload: Span) -> None:
    began = time.monotonic()
    time.sleep(payload.seconds)
    records.append(records.SPAN, began)


@jobs.handler(Obey)
def obey(ctx: jobs.Context, payload: Obey) -> None:
    records.append(records.BEGUN)
    while not ctx.should_stop():
        time.sleep(POLL)
    records.append(records.TOLD)
    ctx.checkpoint()


@jobs.handler(AsyncObey)
async def async_obey(ctx: jobs.Context, payload: AsyncObey) -> None:
    records.append(records.BEGUN)
    try:
        await asyncio.sleep(3600)  # a coroutine is told by cancelling it
    finally:
        records.append(records.TOLD)


@jobs.handler(Holder, preemptible=True)
def holder(ctx: jobs.Context, payload: Holder) -> None:
    if ctx.attempt > 1:  # it has done its duty and is back
        return
    records.append(records.BEGUN)
    while not ctx.should_stop():
        time.sleep(POLL)
    records.append(records.TOLD)
    ctx.checkpoint()


@jobs.handler(Rival, preempts=True)
def rival(ctx: jobs.Context, payload: Rival) -> None:
    records.append(records.STAMP, payload.sent)
