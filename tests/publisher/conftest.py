from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from config.standins.publisher import Standin
from publisher import services
from publisher.models import Account, Brand
from tests.integration.conftest import fleet, servers
from tests.publisher import factories

__all__ = ["fleet", "servers"]  # fixtures


@pytest.fixture(scope="session")
def server() -> Iterator[Standin]:
    made = Standin()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def standin(server: Standin, settings: Any) -> Iterator[Standin]:
    """All providers, which have published nothing yet and behave."""
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}
    settings.PUBLISHER = {
        "GOOGLE_TOKEN_URL": f"{server.url}/oauth", "GOOGLE_CLIENT_ID": "us", "TIMEOUT": 3,
    }  # fmt: skip
    server.reset()
    yield server
    server.reset()


@pytest.fixture
def brand(db: None) -> Brand:
    return services.create_brand("acme", "Acme", "Europe/Rome")


@pytest.fixture
def accounts(brand: Brand, standin: Standin) -> dict[str, Account]:
    """An account of the brand on every channel, by channel."""
    return factories.accounts(brand, standin.url)
