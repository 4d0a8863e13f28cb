from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.standins.erp.server import Erp
from operations.models import Agent
from tests.integration.conftest import fleet, servers
from tests.integration.fleet import Fleet
from tests.operations import factories
from tests.operations.office import Office, Stage, opened

__all__ = ["fleet", "servers"]  # fixtures


@pytest.fixture
def erp(tmp_path: Path, settings: Any) -> Iterator[Erp]:
    """An ERP over HTTP that the app calls."""
    server = Erp(tmp_path / "erp")
    server.start()
    settings.OPERATIONS = {
        "ERP_URL": server.url,
        "EXPORTS": str(tmp_path / "exports"),
        "CALL_TIMEOUT": 3,
    }
    settings.JOBS = {
        **settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"],
        "BLOBS": {"STORE": "local", "ROOT": str(tmp_path / "blobs")},
    }  # fmt: skip
    yield server
    server.stop()


@pytest.fixture
def agent(db: None) -> Agent:
    return factories.agent()


@pytest.fixture(scope="session")
def stage(servers: Fleet) -> Iterator[Stage]:
    """The process that enqueues and stops operations of offices."""
    found = Stage(servers)
    yield found
    found.end()


@pytest.fixture
def office(fleet: Fleet, stage: Stage, tmp_path: Path) -> Iterator[Office]:
    """A fleet whose workers call an ERP."""
    with opened(fleet, stage, tmp_path) as found:
        yield found
