"""What every test of effects starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jobs
from jobs.registry import unregister
from tests.jobs.effects.world import Outside


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def registered() -> Iterator[Callable[..., None]]:
    """Registers handlers for the length of a test."""
    kinds: list[str] = []

    def register(payload: type[jobs.Payload], function: Any, **options: Any) -> None:
        jobs.handler(payload, **options)(function)
        kinds.append(payload.kind)

    yield register
    for kind in kinds:
        unregister(kind)
