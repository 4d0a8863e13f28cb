"""What every test of retention starts from."""

from __future__ import annotations

import pytest

from tests.jobs.retention.sweeping import START, SetClock


@pytest.fixture(autouse=True)
def clock(set_clock: SetClock) -> SetClock:
    set_clock(START)
    return set_clock
