"""Two tenants, their keys, and a client that speaks JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from jobs.operate import apikeys
from jobs.principals import every_permission
from tests.jobs.conftest import set_clock  # noqa: F401 - a fixture
from tests.privacy import vault
from tests.redis import forget_counts


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what only the slow tiers run: to collect it takes longer than all the rest."""
    deselected = "not slow" in config.option.markexpr
    return (deselected and collection_path.name == "test_schemathesis.py") or None


class Caller:
    """A program with a key of its own."""

    def __init__(self, **options: Any) -> None:
        told = apikeys.create(
            options.pop("name", "program"),
            options.pop("permissions", every_permission()),
            by="tests",
            reason="a test",
            **options,
        )
        self.key, self.secret, self.client = told.key, told.text, Client()

    def __call__(self, method: str, path: str, body: Any = None, **headers: Any) -> Any:
        """The response, with its JSON as ``data``."""
        headers.setdefault("Authorization", f"Bearer {self.secret}")
        return call(self.client, method, path, body, **headers)


def call(client: Client, method: str, path: str, body: Any = None, **headers: Any) -> Any:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response: Any = client.generic(
        method, "/api/v1" + path, raw, content_type="application/json", headers=named
    )
    is_json = "json" in response.headers.get("Content-Type", "")
    response.data = json.loads(response.content) if is_json and response.content else None
    return response


@pytest.fixture(autouse=True)
def fresh_counts(settings: Any) -> Iterator[None]:
    """Nobody has asked anything yet, and one test may ask much."""
    settings.JOBS = {
        **settings.JOBS,
        **vault.KEYS,
        "WEBHOOKS": True,
        "API_RATES": {"read": "100000/m", "write": "100000/m", "refused": "100000/m"},
    }
    forget_counts()
    yield
    forget_counts()


@pytest.fixture
def root(db: None) -> Caller:
    """May and sees everything."""
    return Caller(name="root", is_staff=True)


@pytest.fixture
def acme(db: None) -> Caller:
    """May everything, for one tenant."""
    return Caller(name="acme", tenants=["acme"])
