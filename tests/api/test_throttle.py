"""Requests are counted in the Redis of the jobs, and nowhere else."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from django.core.cache.backends.base import BaseCache

from jobs.api import throttle
from jobs.api.problem import Problem
from jobs.engine import rq
from tests.api.conftest import Caller
from tests.jobs.conftest import no_redis  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db


class Untouchable(BaseCache):
    """A cache that fails whoever asks it for anything."""

    def __init__(self, *_: object) -> None:
        super().__init__({})

    def __getattribute__(self, name: str) -> Any:
        if name in {"get", "add", "incr", "set", "touch", "get_many"}:
            raise AssertionError(f"the cache was asked: {name}")
        return super().__getattribute__(name)


@pytest.fixture(autouse=True)
def two_a_day(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "API_RATES": {"read": "2/d", "refused": "2/d"}}
    settings.CACHES = {"default": {"BACKEND": f"{__name__}.Untouchable"}}


def test_no_cache_is_asked(acme: Caller) -> None:
    assert [acme("GET", "/me").status_code for _ in range(3)] == [200, 200, 429]
    acme.secret = "wrong"
    assert [acme("GET", "/me").status_code for _ in range(3)] == [401, 401, 429]


def test_each_process_counts_for_itself_while_redis_is_away(acme: Caller, no_redis: None) -> None:  # noqa: F811
    assert [acme("GET", "/me").status_code for _ in range(3)] == [200, 200, 429]


def test_what_is_counted_alone_stays_small() -> None:
    for number in range(throttle._ALONE_LIMIT + 1):
        throttle._count_alone(str(number), 1)
    assert len(throttle._alone) == 1


@pytest.mark.parametrize(
    "planted", [pickle.dumps(print), b"", b"9" * 30, b"nan", b"-", b"\x80\x04N."], ids=repr
)
def test_what_is_planted_counts_as_nothing(planted: bytes) -> None:
    key = rq._key("count", "planted")
    for more in (0, 1):
        rq.client().set(key, planted)
        assert rq.count("planted", more, 60) in (more, 0)
    rq.client().delete(key)
    rq.client().rpush(key, planted)
    assert rq.count("planted", 0, 60) == 0
    assert rq.count("planted", 1, 60) == 1
    assert rq.count("planted", 2, 60) == 3
    assert 0 < rq.client().ttl(key) <= 60


def test_a_counter_is_forgotten_after_its_window(acme: Caller) -> None:
    acme("GET", "/me")
    [key] = rq.client().scan_iter(rq._key("count", "*"))
    assert 86_400 < rq.client().ttl(key) <= 2 * 86_400


def test_a_window_says_what_is_left() -> None:
    assert [throttle.take("read", "w").left for _ in range(2)] == [1, 0]  # type: ignore[union-attr]
    with pytest.raises(Problem):
        throttle.take("read", "w")
