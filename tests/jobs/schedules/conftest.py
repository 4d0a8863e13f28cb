"""What every test of schedules starts from."""

from __future__ import annotations

import pytest

from tests.jobs.schedules.making import START, Clock


@pytest.fixture
def clock(set_clock: Clock) -> Clock:
    """The clock stands at START until it is moved."""
    set_clock(START)
    return set_clock
