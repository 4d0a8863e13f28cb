"""The rows of limits follow their declarations; wrong ones are refused."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

import jobs
from jobs import registry
from jobs.engine.admission import sync_limits
from jobs.engine.dispatch import Dispatcher
from jobs.errors import HandlerError
from jobs.limits import Limit, Rate
from jobs.outcomes import RateLimited
from tests.jobs.crowd import at_once
from tests.jobs.factories import (
    an_executor,
    sql,
    state,
)
from tests.jobs.limits.kinds import NOW, SECOND, A, B, Declare, SetClock, end, fed, limiters, many
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


# ---- Rows of what is declared


def test_what_is_declared_has_its_rows(declare: Declare, settings: Any) -> None:
    settings.JOBS = {"QUEUES": {"mail": Limit(at_once=10, rate="100/s", burst=50)}}
    declare(A, concurrency=3, rate="50/m")
    declare(B, per_key=Limit(at_once=2))
    assert limiters() == {
        "queue:mail": (10, 100.0, 50.0, True),
        "kind:test.a": (3, 50 / 60, 1.0, True),
        "key:test.b": (2, None, 1.0, True),
    }


def test_rows_follow_the_declaration_and_vanish_with_it(settings: Any) -> None:
    settings.JOBS = {"QUEUES": {"mail": Limit(at_once=10), "x": Limit(at_once=1)}}
    sync_limits()
    settings.JOBS = {"QUEUES": {"mail": Limit(rate="5/s")}}
    sync_limits()
    assert limiters() == {"queue:mail": (None, 5.0, 1.0, True)}
    settings.JOBS = {}
    sync_limits()
    assert limiters() == {}


def test_rows_of_operators_stay_as_they_are(settings: Any) -> None:
    settings.JOBS = {"QUEUES": {"mail": Limit(at_once=10)}}
    sync_limits()
    sql("UPDATE jobs_limiter SET at_once = 2, is_declared = false WHERE scope = 'queue:mail'")
    sql("INSERT INTO jobs_limiter (scope, at_once, is_declared) VALUES ('kind:x', 1, false)")
    sync_limits()
    settings.JOBS = {}
    sync_limits()
    assert limiters() == {
        "queue:mail": (2, None, 1.0, False),
        "kind:x": (1, None, 1.0, False),
    }


def test_a_changed_rate_makes_no_new_tokens(set_clock: SetClock, settings: Any) -> None:
    set_clock(NOW)
    settings.JOBS = {"QUEUES": {"default": Limit(rate="1/s", burst=5)}}
    sync_limits()
    many(Noop(), 30)
    assert len(fed()) == 5
    for burst in (7, 20):
        settings.JOBS = {"QUEUES": {"default": Limit(rate="1/s", burst=burst)}}
        sync_limits()
        assert fed() == []
    set_clock(NOW + 3 * SECOND)
    assert len(fed()) == 3


def test_keys_follow_their_kind_unless_they_have_numbers_of_their_own(declare: Declare) -> None:
    declare(A, per_key=Limit(at_once=1))
    for key in "xy":
        many(A(), 4, limit_key=key)
    assert len(fed()) == 2
    sql("UPDATE jobs_limiter SET at_once = 3, is_declared = false WHERE key = 'y'")
    registry.unregister("test.a")
    declare(A, per_key=Limit(at_once=2))
    assert limiters()["key:test.a|x"] == (2, None, 1.0, True)
    assert limiters()["key:test.a|y"] == (3, None, 1.0, False)


def test_rows_of_keys_vanish_with_their_jobs(declare: Declare) -> None:
    declare(A, per_key=Limit(at_once=1))
    [job_id] = many(A(), 1, limit_key="x")
    fed()
    sync_limits()
    assert "key:test.a|x" in limiters()
    end(job_id)
    sync_limits()
    assert set(limiters()) == {"key:test.a"}


def test_the_row_of_an_empty_bucket_is_kept(declare: Declare, set_clock: SetClock) -> None:
    set_clock(NOW)
    declare(A, per_key=Limit(rate="1/m"))
    [job_id] = many(A(), 1, limit_key="x")
    fed()
    end(job_id)
    set_clock(NOW + 59 * SECOND)
    sync_limits()
    assert "key:test.a|x" in limiters()
    set_clock(NOW + 60 * SECOND)
    sync_limits()
    assert "key:test.a|x" not in limiters()


def test_a_dispatcher_syncs_before_it_admits_and_now_and_then(
    settings: Any, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.JOBS = {"QUEUES": {queue: Limit(at_once=1)}}
    an_executor(queue, slots=8)
    ids = many(Noop(), 3, queue=queue)
    dispatcher = Dispatcher("d")
    assert dispatcher.round() == 1
    assert [state(i) for i in ids].count("queued") == 1
    settings.JOBS = {"QUEUES": {queue: Limit(at_once=2)}}
    assert dispatcher.round() == 0
    moment = time.monotonic() + 30
    monkeypatch.setattr("jobs.engine.dispatch.time.monotonic", lambda: moment)
    assert dispatcher.round() == 1


# ---- Wrong limits


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "needs at_once, a rate, or both"),
        ({"at_once": 0}, "above zero"),
        ({"at_once": -1}, "above zero"),
        ({"at_once": 1.5}, "whole number"),
        ({"at_once": True}, "whole number"),
        ({"rate": ""}, "is not like"),
        ({"rate": "fast"}, "is not like"),
        ({"rate": "-1/s"}, "is not like"),
        ({"rate": "1/y"}, "is not like"),
        ({"rate": 5}, "is not like"),
        ({"rate": "0/s"}, "above zero"),
        ({"rate": "1/0s"}, "above zero"),
        ({"rate": "2000000/s"}, "more than a million"),
        ({"rate": "1/s", "burst": 0}, "at least 1"),
        ({"rate": "1/s", "burst": float("nan")}, "at least 1"),
        ({"rate": "1/s", "burst": float("inf")}, "at least 1"),
        ({"at_once": 1, "burst": 5}, "nothing without a rate"),
    ],
)
def test_a_wrong_limit_is_refused(arguments: Any, problem: str) -> None:
    with pytest.raises(HandlerError, match=problem):
        Limit(**arguments)


@pytest.mark.parametrize(
    ("text", "per_second", "burst"),
    [
        ("100/s", 100, 2),
        ("50/m", 50 / 60, 1),
        ("3/10m", 0.005, 1),
        ("0.5/s", 0.5, 1),
        ("1/d", 1 / 86400, 1),
    ],
)
def test_a_rate_is_read(text: str, per_second: float, burst: float) -> None:
    assert Rate.parse(text) == Rate(per_second, burst)


def test_a_limit_key_needs_a_limit(declare: Declare) -> None:
    declare(A)
    with pytest.raises(jobs.errors.InvalidOption, match=r"^limit_key: .* no per_key limit"):
        jobs.enqueue(A(), limit_key="x")


@pytest.mark.parametrize("arguments", [(-1,), (float("nan"),), (1, "tenant"), (367 * 86400,)])
def test_a_wrong_rate_limited_is_refused(arguments: Sequence[Any]) -> None:
    with pytest.raises(ValueError, match=r"^RateLimited: "):
        RateLimited(*arguments)


@pytest.mark.django_db(transaction=True)
def test_syncs_of_many_dispatchers_do_not_disturb_each_other(declare: Declare) -> None:
    declare(A, concurrency=3, per_key=Limit(at_once=2))
    declare(B, rate="5/s")
    jobs.enqueue_many(jobs.Draft(A(), limit_key=f"k{n}") for n in range(20))

    def sync() -> None:
        for _ in range(10):
            sync_limits()

    at_once([sync, sync, sync, *(partial(fed, 2) for _ in range(3))])
    assert {"kind:test.a", "key:test.a", "kind:test.b"} <= set(limiters())
