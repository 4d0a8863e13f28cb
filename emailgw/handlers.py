"""The handler, end callback and sweeper of the gateway."""

from __future__ import annotations

from datetime import timedelta

import jobs
from emailgw import callbacks, pipeline, retention
from emailgw.config import BURST, EMAIL_JOB_CONFIG, TTL, settings
from emailgw.payloads import EmailSendJobData
from jobs.retention import Keep, sweeper

_SETTINGS = settings()
# In any second, wherever it begins: those that start in it, a burst, and those already running.
RATE = jobs.limits.Rate(per_second=_SETTINGS.PER_SECOND - BURST - _SETTINGS.AT_ONCE, burst=BURST)
_DELETE_AT_ONCE = timedelta(0)
_DLQ = Keep(timedelta(milliseconds=EMAIL_JOB_CONFIG.DLQ_TTL), last=EMAIL_JOB_CONFIG.DLQ_LIMIT)


@jobs.handler(
    EmailSendJobData,
    queue=EMAIL_JOB_CONFIG.QUEUE_NAME,
    max_attempts=EMAIL_JOB_CONFIG.MAX_ATTEMPTS,
    backoff=jobs.Delays(*EMAIL_JOB_CONFIG.BACKOFF_DELAYS[:-1], jitter="none"),
    timeout=120,
    expires=TTL,
    concurrency=_SETTINGS.AT_ONCE,
    per_key=jobs.Limit(rate=RATE),
    replayable=False,
    internal=True,
    keep_completed=_DELETE_AT_ONCE if _SETTINGS.REMOVE_ON_COMPLETE else None,
    keep_failed=_DELETE_AT_ONCE if _SETTINGS.REMOVE_ON_FAIL else _DLQ,
    dead_letter_retention=_DLQ,
)
def send_email(ctx: jobs.Context, data: EmailSendJobData) -> jobs.types.Vouched:
    """Send one email, once. Resending retries the same job and never creates another."""
    return jobs.types.Vouched(pipeline.run(ctx, data))


jobs.ended(EmailSendJobData)(callbacks.close_email)
sweeper("emails")(retention.clear)
