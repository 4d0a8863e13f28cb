"""A duty that fails is logged and tried again, and keeps no other from being done."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
from django.db import InternalError, OperationalError
from psycopg import errors

from jobs.engine import closures, duties, rq
from jobs.engine.dispatch import Dispatcher
from jobs.engine.duties import Duties
from tests.jobs.factories import a_job, row, sql

log = logging.getLogger("jobs.test")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(duties, "time", clock)
    return clock


def broken() -> None:
    raise TypeError("can't compare offset-naive and offset-aware datetimes")


@pytest.mark.django_db
def test_a_broken_duty_does_not_end_the_dispatcher(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(closures, "refresh", broken)
    job_id = a_job()
    sql("UPDATE jobs_job SET expires_at = jobs_clock() - interval '1 s' WHERE id = %s", [job_id])
    dispatcher = Dispatcher("d")
    for _ in range(3):
        dispatcher.round()
    assert row(job_id).state == "expired", "what comes after it is done"
    told = [r for r in caplog.records if "duty 'close' failed" in r.getMessage()]
    assert len(told) == 1 and told[0].exc_info


def test_a_duty_that_fails_is_tried_again_later_and_later(clock: Clock) -> None:
    tries: list[float] = []

    def fail() -> None:
        tries.append(clock.now)
        broken()

    mine = Duties(log)
    while clock.now < 1100:
        mine.do("x", fail)
        clock.now += 0.25
    gaps = [b - a for a, b in pairwise(tries)]
    assert gaps[:4] == [0.5, 1.0, 2.0, 4.0] and max(gaps) <= 30
    clock.now += 60
    assert mine.do("x", lambda: 7) == 7
    assert mine.do("x", fail) is None, "it is well again, and so tried at once"


def test_a_server_that_is_away_ends_the_round() -> None:
    mine = Duties(log)
    read_only = InternalError("cannot execute UPDATE in a read-only transaction")
    read_only.__cause__ = errors.ReadOnlySqlTransaction()
    for error in (OperationalError("server closed the connection"), read_only):

        def away(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error)):
            mine.do("x", away)
        assert mine.do("x", lambda: 1) == 1


def test_redis_that_is_away_is_told_at_the_end_of_the_round() -> None:
    mine = Duties(log)

    def away() -> None:
        raise rq.Unavailable[0]("Redis is away")

    mine.do("x", away)
    assert mine.lacks_redis and mine.do("y", lambda: 2) == 2
    with pytest.raises(rq.Unavailable):
        mine.end()
    mine.end()
