"""The jobs of the gateway."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import jobs
from emailgw import pipeline, sweeping
from emailgw.config import EMAIL_JOB_CONFIG, TTL, settings
from emailgw.payloads import EmailSendJobData

RATE = jobs.Rate(per_second=98, burst=2)
"""A hundred a second at most, over any second: the burst comes on top."""
_GONE = timedelta(0)
_DLQ = timedelta(milliseconds=EMAIL_JOB_CONFIG.DLQ_TTL)


@jobs.handler(
    EmailSendJobData,
    queue=EMAIL_JOB_CONFIG.QUEUE_NAME,
    max_attempts=EMAIL_JOB_CONFIG.MAX_ATTEMPTS,
    backoff=jobs.Delays(*EMAIL_JOB_CONFIG.BACKOFF_DELAYS[:-1], jitter="none"),
    timeout=120,
    expires=TTL,
    concurrency=10,
    per_key=jobs.Limit(rate=RATE),
    replayable=False,
    keep_completed=_GONE if settings().REMOVE_ON_COMPLETE else None,
    keep_failed=_GONE if settings().REMOVE_ON_FAIL else _DLQ,
)
def send_email(ctx: jobs.Context, data: EmailSendJobData) -> dict[str, Any]:
    """Sends one email, once. Resending is a retry of the same job, never another one."""
    return pipeline.run(ctx, data)


class Sweep(jobs.Payload, kind="email:sweep"):
    """Makes emails agree with jobs that ended without them."""


@jobs.handler(Sweep, queue="email:sweep", max_attempts=3, timeout=60, keep_completed=100)
def sweep(ctx: jobs.Context, payload: Sweep) -> dict[str, int]:
    """Closes emails whose jobs have expired, been cancelled or been given up."""
    return sweeping.sweep()


jobs.schedule("email-sweep", Sweep(), interval=60, overlap="skip")
