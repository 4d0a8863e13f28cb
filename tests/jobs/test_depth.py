"""How many ids the dispatcher keeps in a list, near to Redis and far away from it."""

from __future__ import annotations

import pytest

from jobs.engine.dispatch import ROUND_LIMIT, _Feed


def drained(capacity: float, cycle: float, slots: int = 16, seconds: float = 60.0) -> float:
    """Return the jobs a second that workers take at last, with rounds of this many seconds."""
    feed, length, moment, taken = _Feed(slots=slots), 0, 1.0, 0
    end = moment + seconds
    while moment < end:
        room = feed.room(length, moment)
        feed.backlog = True
        feed.length = length = length + max(0, min(room, ROUND_LIMIT))
        moment += cycle
        taken = min(length, round(capacity * cycle))
        length -= taken
    return taken / cycle


@pytest.mark.parametrize("cycle", [0.005, 0.05, 0.45])
def test_workers_find_work_however_far_redis_is(cycle: float) -> None:
    assert drained(capacity=400, cycle=cycle) > 360


def test_a_list_near_by_holds_a_tenth_of_a_second() -> None:
    """What is in a list is passed by no job of a higher priority."""
    feed, length, moment = _Feed(slots=16), 0, 1.0
    for _ in range(2000):
        room = feed.room(length, moment)
        feed.backlog = True
        feed.length = length = length + max(0, min(room, ROUND_LIMIT))
        moment += 0.005
        length -= min(length, 10)
    assert 150 < feed.depth < 260, "0.105 s of 2,000 a second"
