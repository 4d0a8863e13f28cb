"""The venue's rate limits: who shares one, waits together."""

from __future__ import annotations

import logging

import jobs
from trading.config import settings
from trading.errors import Limited

log = logging.getLogger(__name__)
public = jobs.meter("trading:coinbase:public", "10/s", burst=5, wait=5)
"""Market data of Coinbase, for everybody."""
ai = jobs.meter("trading:ai", "28/s", burst=20, wait=2)
"""What the AI service takes from one key."""


def of_user(user: int) -> jobs.flow.Meter:
    """Return the meter of a user's requests to Coinbase."""
    return jobs.meter(f"trading:coinbase:user:{user}", "30/s", burst=10, wait=5)


def close(meter: jobs.flow.Meter, error: Limited) -> None:
    """Let nobody who shares the limit ask before the venue allows it."""
    seconds = error.seconds + settings().BROKER_RATE_LIMIT_SAFETY_MS / 1000
    log.warning("%s asks to wait", meter.name, extra={"reset_s": seconds})
    meter.close(seconds)
