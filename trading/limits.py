"""The venue's rate limits: who shares one, waits together."""

from __future__ import annotations

import logging
import time

import jobs
from trading.config import settings
from trading.errors import Limited
from trading.models import Broker

log = logging.getLogger(__name__)
public = jobs.meter("trading:coinbase:public", "10/s", burst=5, wait=5)
"""Market data of Coinbase, for everybody."""
ai = jobs.meter("trading:ai", "28/s", burst=20, wait=2)
"""What the AI service takes from one key."""


binance = jobs.meter("trading:binance", "5400/m", burst=600, wait=5)
"""Everything of Binance, which counts weights by address: 6,000 a minute."""
vendor = jobs.meter("trading:vendor", "10/s", burst=5, wait=5)
"""Market data of the vendor."""
FILLS_WEIGHT, CANDLES_WEIGHT = 20, 2
"""What Binance counts for a page of fills, and of candles."""
_TOO_MUCH = 5_700


def of_user(user: int) -> jobs.flow.Meter:
    """Return the meter of a user's requests to Coinbase."""
    return jobs.meter(f"trading:coinbase:user:{user}", "30/s", burst=10, wait=5)


def of_account(broker: str, user: int) -> tuple[jobs.flow.Meter, int]:
    """Return the meter of a page of fills, and what it weighs."""
    return (binance, FILLS_WEIGHT) if broker == Broker.BINANCE else (of_user(user), 1)


def of_market(broker: str) -> tuple[jobs.flow.Meter, int]:
    """Return the meter of a request for candles, and what it weighs."""
    return (binance, CANDLES_WEIGHT) if broker == Broker.BINANCE else (public, 1)


def heed_weight(used: int) -> None:
    """Stop before Binance refuses: others on the same address use its minute, too."""
    if used >= _TOO_MUCH:
        close(binance, Limited(60.0 - time.time() % 60))


def close(meter: jobs.flow.Meter, error: Limited) -> None:
    """Let nobody who shares the limit ask before the venue allows it."""
    seconds = error.seconds + settings().BROKER_RATE_LIMIT_SAFETY_MS / 1000
    log.warning("%s asks to wait", meter.name, extra={"reset_s": seconds})
    meter.close(seconds)
