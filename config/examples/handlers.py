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


@jobs.handler(Broken, max_attempts=2, backoff=jobs.backoff.Fixed(0.2))
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


class Parcel(jobs.Payload, kind="example.parcel"):
    number: int
    seconds: float


@jobs.handler(Parcel)
def parcel(ctx: jobs.Context, payload: Parcel) -> int:
    """One member of a batch."""
    time.sleep(payload.seconds)
    return payload.number


class Tally(jobs.Payload, kind="example.tally"):
    of: str


@jobs.handler(Tally)
def tally(ctx: jobs.Context, payload: Tally) -> str:
    """Comes when all members of a batch have ended; the batch is its correlation id."""
    return f"counted {payload.of} of batch {ctx.correlation_id}"


class Add(jobs.Payload, kind="example.add"):
    number: int


@jobs.handler(Add)
def add(ctx: jobs.Context, payload: Add) -> int:
    """Adds its number to what the job before it in the chain has returned."""
    total: int = sum(ctx.parents().values(), payload.number)
    return total


class Occupy(jobs.Payload, kind="example.occupy"):
    seconds: float


@jobs.handler(Occupy)
def occupy(ctx: jobs.Context, payload: Occupy) -> None:
    """Needs something that only one job can have at a time: see its exclusive key."""
    time.sleep(payload.seconds)


class Knock(jobs.Payload, kind="example.knock"):
    number: int


@jobs.handler(Knock, rate="5/s")
def knock(ctx: jobs.Context, payload: Knock) -> int:
    """Calls a service that allows five calls a second; the rest waits, and none is lost."""
    return payload.number


class Patient(jobs.Payload, kind="example.patient"):
    seconds: float


@jobs.handler(Patient, preemptible=True, timeout=60)
def patient(ctx: jobs.Context, payload: Patient) -> str:
    """Takes its time, looks now and then whether it is to stop, and gives back what it holds."""
    if ctx.attempt > 1:
        return "after you"
    ctx.on_cleanup(lambda: ctx.log.info("gave it back: %s", ctx.signal.reason or "done"))
    end = time.monotonic() + payload.seconds
    while time.monotonic() < end:
        ctx.checkpoint()
        time.sleep(0.05)
    return "in peace"


class Urgent(jobs.Payload, kind="example.urgent"):
    pass


@jobs.handler(Urgent, preempts=True)
def urgent(ctx: jobs.Context, payload: Urgent) -> str:
    """Pushes a less important job off the key that both need."""
    return "thank you"


class Wire(jobs.Payload, kind="example.wire"):
    euros: int


@jobs.handler(Wire, backoff=jobs.backoff.Fixed(0.2))
def wire(ctx: jobs.Context, payload: Wire) -> str:
    """Loses the line in the middle of a call: nobody knows whether the money went.

    The second attempt finds that out, makes no second call, and leaves the rest to a person.
    """

    def send() -> str:
        raise ConnectionResetError("the line went dead after the request was sent")

    return str(ctx.effect("transfer", send, request={"euros": payload.euros}))


class Deliver(jobs.Payload, kind="example.deliver"):
    number: int


@jobs.handler(Deliver, max_attempts=1)
def deliver(ctx: jobs.Context, payload: Deliver) -> str:
    """Meets a provider that is down; it works once somebody has seen to that and retries."""
    if ctx.attempt == 1:
        raise ConnectionError("the provider does not answer")
    return f"delivered parcel {payload.number}"


class Label(jobs.Payload, kind="example.label"):
    number: int


@jobs.handler(Label)
def label(ctx: jobs.Context, payload: Label) -> None:
    """Dies of the same as the others of its kind, which makes them one cause."""
    raise jobs.Unrecoverable(f"the printer does not know label {payload.number}")
