"""Calls that fail, and what becomes of their circuit."""

from __future__ import annotations

from typing import Any

import pytest

import jobs
from jobs.models import Breaker


class Down(ConnectionError):
    pass


def failing(error: BaseException | None = None) -> None:
    raise error or Down("503")


def fail(breaker: Any, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(Down):
            breaker.call(failing)


def state(name: str) -> str:
    return Breaker.objects.get(name=name).state


def opened(name: str, **options: Any) -> Any:
    """A breaker whose circuit has just opened."""
    breaker = jobs.breaker(name, **{"threshold": 2, "open_for": 100, **options})
    fail(breaker, 2)
    assert state(name) == "open"
    return breaker
