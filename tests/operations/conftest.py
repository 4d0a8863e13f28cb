from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.standins.erp.server import Erp
from operations.models import Agent
from tests.operations import factories


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
