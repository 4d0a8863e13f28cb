"""Redis behind Sentinel: a master that falls silent, and sentinels that do."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.engine import outage, pushes, rq, wire
from tests.integration.fleet import Fleet
from tests.integration.sentinels import Sentinels
from tests.redis import redis_at, seconds
from tests.wait import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]
PROMISE = 0.3
"""Seconds that a request waits for Redis at most."""


@pytest.fixture
def sentinels(tmp_path: Path) -> Iterator[Sentinels]:
    made = Sentinels(tmp_path)
    yield made
    made.close()


def test_work_goes_on_when_the_master_falls_silent(fleet: Fleet, sentinels: Sentinels) -> None:
    env = {"FLEET_RQ": json.dumps(sentinels.described)}
    dispatcher = fleet.dispatcher(env=env)
    workers = [fleet.worker("--concurrency=4", env=env) for _ in range(2)]
    fleet.enqueue_all([("test.effect", {}, {})] * 500)
    fleet.enqueue_all([("test.sleep", {"seconds": 0.05}, {})] * 500)
    wait_until(lambda: fleet.states().get("succeeded", 0) > 100)
    sentinels.pause(sentinels.master)
    silent = time.monotonic()
    wait_until(lambda: sentinels.current() == sentinels.replica, 60)
    failover = time.monotonic()
    fleet.await_final(60)
    done = time.monotonic()
    assert fleet.states() == {"succeeded": 1000}
    assert fleet.value("SELECT count(*) FROM effects") == 500
    for program in (dispatcher, *workers):
        program.send(signal.SIGTERM)
    for program in (dispatcher, *workers):
        assert program.ended(5.0 + 5.0) == 0
    print(f"failover {failover - silent:.1f} s, all done {done - failover:.1f} s later")  # noqa: T201


@pytest.mark.django_db
def test_a_first_sentinel_that_is_silent_delays_nothing(sentinels: Sentinels) -> None:
    sentinels.first.set("hole")
    with redis_at(**sentinels.described):
        assert seconds(pushes.nudge, before=rq.forget_clients) < PROMISE
        # At the latest when somebody has asked the second one in the background.
        wait_until(answers)
        assert not outage.outage.is_on
        assert wire.wire().ask("PING") == b"PONG"
        assert seconds(lambda: rq.is_open("default")) < 0.1


@pytest.mark.django_db
def test_a_silent_master_is_not_waited_for(sentinels: Sentinels) -> None:
    with redis_at(**sentinels.described):
        assert not rq.is_open("default")
        sentinels.pause(sentinels.master)
        assert seconds(a_request, times=1) < PROMISE
        assert seconds(a_request) < 0.1
        wait_until(lambda: sentinels.current() == sentinels.replica, 60)
        wait_until(answers)
        sentinels.proceed(sentinels.master)


def a_request() -> None:
    pushes.nudge()
    rq.is_open("default")


def answers() -> bool:

    try:
        return not rq.is_open("default")
    except rq.Unavailable:
        return False
