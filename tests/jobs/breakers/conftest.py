"""What every test of breakers starts from."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from jobs.testing import Clock, freeze_clock


@pytest.fixture
def name() -> str:
    return f"test:{uuid4().hex[:8]}"


@pytest.fixture
def clock(db: None) -> Iterator[Clock]:
    with freeze_clock() as stopped:
        yield stopped
