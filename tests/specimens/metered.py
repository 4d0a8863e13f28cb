"""Specimen handlers that call by a meter."""

from __future__ import annotations

import random
import time

import jobs


class Metered(jobs.Payload, kind="test.metered"):
    log: str
    calls: int
    closes: bool = False


@jobs.handler(Metered, timeout=120)
def metered(ctx: jobs.Context, payload: Metered) -> None:
    """Note the moment and the weight of each call in a file; the calls weigh 1 to 9."""
    meter = jobs.meter("test", "100/s", burst=10, wait=60)
    dice = random.Random(str(ctx.job_id))
    for _ in range(payload.calls):
        weight = dice.choice((1, 1, 2, 5, 9))
        meter.take(weight)
        moment = time.time()
        with open(payload.log, "a") as file:
            file.write(f"{moment!r} {weight}\n")
    if payload.closes:
        meter.close(2)
        with open(payload.log, "a") as file:
            file.write(f"{time.time()!r} closed\n")
