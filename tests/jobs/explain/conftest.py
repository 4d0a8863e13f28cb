"""What every explanation starts from."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from jobs.engine import rq
from tests.jobs.explain.asking import NOON, SetClock
from tests.jobs.factories import (
    an_executor,
)


@pytest.fixture(autouse=True)
def noon(set_clock: SetClock) -> None:
    set_clock(NOON)


@pytest.fixture(autouse=True)
def surroundings() -> Iterator[UUID]:
    """A worker listens to the default queue, and a dispatcher is alive."""
    rq.note_dispatcher("test-dispatcher")
    yield an_executor()
    rq.client().delete(rq.dispatchers_key())
