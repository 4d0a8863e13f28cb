"""The platform's own kind of job that carries a bulk operation out."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from jobs.context import Context
from jobs.outcomes import Snooze
from jobs.payloads import Payload
from jobs.registry import handler

TURN = 15.0
"""Seconds after which it makes way for others."""
PAUSE = 0.5
"""Shortest time between two portions of a paced operation."""


class RunBulk(Payload, kind="jobs.bulk"):
    """The operation that is carried on until it is over."""

    bulk_id: UUID


@handler(RunBulk, max_attempts=100, crash_limit=100, timeout=120, replayable=False, internal=True)
def run_bulk(ctx: Context, payload: RunBulk) -> dict[str, Any]:
    """Makes steps until the pace says wait, or the operation is over."""
    from jobs.operate.bulkrun import step

    began = time.monotonic()
    while (wait := step(payload.bulk_id)) is not None:
        ctx.checkpoint()
        if wait > 0:
            raise Snooze(max(wait, PAUSE), "waits for its pace")
        if time.monotonic() - began > TURN:
            raise Snooze(0, "makes way for others")
    return {}
