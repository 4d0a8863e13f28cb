from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache

import jobs
from config.standins.trading import Account, Binance, Coinbase, Vendor, new_account
from config.standins.trading.logins import CLIENT_ID, CLIENT_SECRET
from config.standins.trading.vendor import KEY as VENDOR_KEY
from tests.trading.factories import AI_KEY, AI_SECRET, linked
from trading import limits
from trading.models import BrokerConnection


@pytest.fixture(scope="session")
def standin() -> Iterator[Coinbase]:
    found = Coinbase().start()
    yield found
    found.stop()


@pytest.fixture
def venue(
    standin: Coinbase, live_server: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Coinbase]:
    """The venue and the AI service of the project, both over real HTTP, and an empty cache."""
    standin.reset()
    cache.clear()
    # At their own rates tests would spend most of their time asleep, above all where the clock of
    # the meters stands still.
    for name in ("public", "ai"):
        wide = jobs.meter(f"trading:{name}:wide", "10000/s", burst=10_000)
        monkeypatch.setattr(limits, name, wide)
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8", "localhost"]}
    settings.TRADING = {
        "COINBASE_URL": standin.url, "AI_BASE_URL": f"{live_server.url}/ai",
        "AI_HMAC_KEY_ID": AI_KEY, "AI_HMAC_SECRET": AI_SECRET, "AI_KEYS": {AI_KEY: AI_SECRET},
        "BROKER_RATE_LIMIT_SAFETY_MS": 0,
        "AI_TIMEOUT_MS": 20_000,  # a busy machine is no outage
    }  # fmt: skip
    yield standin
    standin.reset()


@pytest.fixture(scope="session")
def binance_standin(standin: Coinbase) -> Iterator[Binance]:
    found = Binance(standin.market).start()
    yield found
    found.stop()


@pytest.fixture
def binance(venue: Coinbase, binance_standin: Binance, settings: Any) -> Iterator[Binance]:
    """Binance, switched on."""
    binance_standin.reset()
    settings.TRADING = {
        **settings.TRADING, "FEATURE_BINANCE": True, "BINANCE_URL": binance_standin.url,
    }  # fmt: skip
    yield binance_standin
    binance_standin.reset()


@pytest.fixture(scope="session")
def vendor_standin(standin: Coinbase) -> Iterator[Vendor]:
    found = Vendor(standin.market).start()
    yield found
    found.stop()


@pytest.fixture
def vendor(venue: Coinbase, vendor_standin: Vendor, settings: Any) -> Iterator[Vendor]:
    """The vendor of prices, switched on."""
    vendor_standin.reset()
    settings.TRADING = {
        **settings.TRADING, "FEATURE_VENDOR_FALLBACK": True, "VENDOR_URL": vendor_standin.url,
        "VENDOR_API_KEY": VENDOR_KEY,
    }  # fmt: skip
    yield vendor_standin
    vendor_standin.reset()


@pytest.fixture
def login(venue: Coinbase, settings: Any) -> Account:
    """An account whose user is logged in at the venue, where this project has a client."""
    settings.TRADING = {
        **settings.TRADING, "COINBASE_LOGIN_URL": venue.url, "COINBASE_CLIENT_ID": CLIENT_ID,
        "COINBASE_CLIENT_SECRET": CLIENT_SECRET,
    }  # fmt: skip
    account = venue.add(new_account("organizations/o/users/u"))
    account.fills = venue.market.fills()
    venue.logins.account = account.name
    return account


@pytest.fixture
def link(venue: Coinbase) -> BrokerConnection:
    """A linked account with the twelve trades of the plan."""
    account = venue.add(new_account())
    account.fills = venue.market.fills()
    return linked(account)
