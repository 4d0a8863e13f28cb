"""How many jobs an executor claims beyond its free slots."""

from __future__ import annotations

import pytest

from jobs.engine.executor import LOOK_AHEAD_LIMIT, _Pace


@pytest.mark.parametrize(
    ("seconds", "ahead"), [(0.000_01, LOOK_AHEAD_LIMIT), (0.01, 20), (0.04, 5), (0.1, 0), (30, 0)]
)
def test_only_of_short_jobs_some_are_claimed_ahead(seconds: float, ahead: int) -> None:
    pace = _Pace()
    for _ in range(1000):
        pace.note(seconds)
    assert abs(pace.look_ahead(25) - ahead) <= 1


def test_before_the_first_has_ended_nothing_is_claimed_ahead() -> None:
    assert _Pace().look_ahead(25) == 0
