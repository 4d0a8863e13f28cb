from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from emailgw.models import Company
from tests.emailgw import factories
from tests.emailgw.sink import Sink
from tests.integration.conftest import fleet, servers

__all__ = ["fleet", "servers"]  # fixtures


@pytest.fixture(scope="session")
def server() -> Iterator[Sink]:
    sink = Sink()
    sink.start()
    yield sink
    sink.stop()


@pytest.fixture
def sink(server: Sink, settings: Any) -> Iterator[Sink]:
    """An SMTP server that takes everything, and that the gateway sends to."""
    settings.EMAILGW = factories.providers(server.port)
    server.reset()
    yield server
    server.reset()


@pytest.fixture
def company(db: None) -> Company:
    return factories.company()
