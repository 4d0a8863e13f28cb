"""The jobs of the gateway."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import jobs
from emailgw import closing, pipeline, retention
from emailgw.config import EMAIL_JOB_CONFIG, TTL, settings
from emailgw.payloads import EmailSendJobData

AT_ONCE = 10
RATE = jobs.Rate(per_second=87, burst=3)
"""At most a hundred in any second, whenever it begins: those that start in it, a burst, and the ten
that were under way already."""
_GONE = timedelta(0)
_DLQ = jobs.Keep(timedelta(milliseconds=EMAIL_JOB_CONFIG.DLQ_TTL), last=EMAIL_JOB_CONFIG.DLQ_LIMIT)


@jobs.handler(
    EmailSendJobData,
    queue=EMAIL_JOB_CONFIG.QUEUE_NAME,
    max_attempts=EMAIL_JOB_CONFIG.MAX_ATTEMPTS,
    backoff=jobs.Delays(*EMAIL_JOB_CONFIG.BACKOFF_DELAYS[:-1], jitter="none"),
    timeout=120,
    expires=TTL,
    concurrency=AT_ONCE,
    per_key=jobs.Limit(rate=RATE),
    replayable=False,
    keep_completed=_GONE if settings().REMOVE_ON_COMPLETE else None,
    keep_failed=_GONE if settings().REMOVE_ON_FAIL else _DLQ,
    dead_letter_retention=_DLQ,
)
def send_email(ctx: jobs.Context, data: EmailSendJobData) -> dict[str, Any]:
    """Sends one email, once. Resending is a retry of the same job, never another one."""
    return pipeline.run(ctx, data)


jobs.ended(EmailSendJobData)(closing.close)
jobs.sweeper("emails")(retention.clear)
