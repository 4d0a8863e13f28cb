from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache

from config.standins.trading import Coinbase, new_account
from tests.trading.factories import AI_KEY, AI_SECRET, linked
from trading.models import BrokerConnection


@pytest.fixture(scope="session")
def standin() -> Iterator[Coinbase]:
    found = Coinbase().start()
    yield found
    found.stop()


@pytest.fixture
def venue(standin: Coinbase, live_server: Any, settings: Any) -> Iterator[Coinbase]:
    """The venue and the AI service of the project, both over real HTTP, and an empty cache."""
    standin.reset()
    cache.clear()
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8", "localhost"]}
    settings.TRADING = {
        "COINBASE_URL": standin.url, "AI_BASE_URL": f"{live_server.url}/ai",
        "AI_HMAC_KEY_ID": AI_KEY, "AI_HMAC_SECRET": AI_SECRET, "AI_KEYS": {AI_KEY: AI_SECRET},
        "BROKER_RATE_LIMIT_SAFETY_MS": 0,
        "AI_TIMEOUT_MS": 20_000,  # a busy machine is no outage
    }  # fmt: skip
    yield standin
    standin.reset()


@pytest.fixture
def link(venue: Coinbase) -> BrokerConnection:
    """A linked account with the twelve trades of the plan."""
    account = venue.add(new_account())
    account.fills = venue.market.fills()
    return linked(account)
