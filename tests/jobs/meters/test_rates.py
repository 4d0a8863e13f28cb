"""What a meter lets through: never more than its rate in any window, and evenly spread."""

from __future__ import annotations

from datetime import timedelta
from itertools import accumulate, pairwise
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.engine import meters
from jobs.engine.meters import Pace
from jobs.testing import freeze_clock

EVER = 1e9


def most_in_any(window: float, calls: list[tuple[float, int]]) -> int:
    """The most that lies in any half-open window of this length."""
    sums = [0, *accumulate(weight for _, weight in calls)]
    most, start = 0, 0
    for end, (moment, _) in enumerate(calls):
        while calls[start][0] <= moment - window:
            start += 1
        most = max(most, sums[end + 1] - sums[start])
    return most


@pytest.mark.django_db
@given(
    amount=st.integers(1, 40),
    span=st.sampled_from([1.0, 10.0, 60.0]),
    burst=st.integers(1, 40),
    asks=st.lists(
        st.tuples(st.floats(0, 3), st.integers(1, 40), st.booleans()), min_size=1, max_size=40
    ),
)
@settings(max_examples=60, deadline=None)
def test_no_window_holds_more_than_the_rate(
    amount: int, span: float, burst: int, asks: list[tuple[float, int, bool]]
) -> None:
    name, pace = f"test:{uuid4()}", Pace(amount, span, min(burst, amount))
    calls: list[tuple[float, int]] = []
    with freeze_clock() as clock:
        began = clock.now
        for pause, weight, is_late in asks:
            clock.tick(pause)
            at = (clock.now - began).total_seconds()
            taken = meters.take(name, min(weight, amount), pace, EVER, None)
            assert taken.is_taken
            # A call may begin a moment after its time, and must be within all the same.
            begins = at + taken.wait + (pace.late if is_late else 0.0)
            calls.append((begins, min(weight, amount)))
    assert most_in_any(span - 1e-5, sorted(calls)) <= amount


@pytest.mark.django_db
@pytest.mark.parametrize(("rate", "least"), [((100, 1.0), 0.87), ((300, 60.0), 0.93)])
def test_most_of_the_rate_can_be_used(rate: tuple[int, float], least: float) -> None:
    amount, span = rate
    pace = Pace(amount, span, 5)
    with freeze_clock():
        waits = [meters.take("test", 1, pace, EVER, None).wait for _ in range(3 * amount)]
    assert waits == sorted(waits)
    assert 3 * amount / waits[-1] >= least * amount / span


@pytest.mark.django_db
def test_a_burst_goes_at_once_and_the_rest_is_spread() -> None:
    pace = Pace(60, 60.0, 3)
    with freeze_clock():
        waits = [meters.take("test", 1, pace, EVER, None).wait for _ in range(6)]
    assert waits[:3] == [0, 0, 0]
    gaps = [b - a for a, b in pairwise(waits[2:])]
    assert all(1.0 <= gap <= 1.2 for gap in gaps)


@pytest.mark.django_db
def test_a_heavy_call_goes_when_the_burst_is_full_and_is_paid_for_afterwards() -> None:
    pace = Pace(60, 60.0, 1)
    with freeze_clock():
        first = meters.take("test", 30, pace, EVER, None).wait
        second = meters.take("test", 1, pace, EVER, None).wait
    assert first == 0
    assert 30 <= second <= 35


@pytest.mark.django_db
def test_what_lies_too_far_ahead_is_not_reserved() -> None:
    pace = Pace(1, 60.0, 1)
    with freeze_clock() as clock:
        assert meters.take("test", 1, pace, 5, None).is_taken
        refused = [meters.take("test", 1, pace, 5, None) for _ in range(3)]
        assert not any(taken.is_taken for taken in refused)
        assert len({taken.wait for taken in refused}) == 1
        clock.tick(timedelta(seconds=refused[0].wait))
        assert meters.take("test", 1, pace, 0, None).is_taken


@pytest.mark.django_db
def test_a_rate_that_is_declared_otherwise_forgets_nothing() -> None:
    with freeze_clock():
        for _ in range(10):
            meters.take("test", 1, Pace(10, 60.0, 10), EVER, None)
        assert meters.take("test", 1, Pace(10, 1.0, 10), EVER, None).wait >= 1
        assert meters.take("test", 5, Pace(1000, 60.0, 10), EVER, None).wait <= 10


@pytest.mark.django_db
def test_a_clock_that_goes_back_holds_nobody_for_longer_than_the_rate() -> None:
    pace = Pace(10, 60.0, 10)
    with freeze_clock() as clock:
        for _ in range(10):
            meters.take("test", 1, pace, EVER, None)
        clock.tick(timedelta(days=-3))
        assert 1 <= meters.take("test", 1, pace, EVER, None).wait <= 70
