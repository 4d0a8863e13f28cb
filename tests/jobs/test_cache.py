"""The cache: JSON under a MAC, shared by all processes, and nothing of what others write."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.core.cache import cache as default
from django.test import override_settings

from jobs.cache import RedisCache
from jobs.engine import clients
from tests.wait import wait_until


@pytest.fixture
def cache() -> Iterator[RedisCache]:
    """A cache of the test's own."""
    made = RedisCache(django_settings.CACHES["default"]["LOCATION"], {"KEY_PREFIX": uuid4().hex})
    yield made
    made.clear()


@pytest.fixture
def redis() -> Any:
    return clients.at(django_settings.CACHES["default"]["LOCATION"])


@pytest.fixture(autouse=True)
def _no_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("unpickles")

    monkeypatch.setattr(pickle, "loads", refuse)


VALUES = ["", "à\0\ud800", 0, -5, 2**70, 1.5, True, None, [], [1, [2]], {"a": {"b": [None]}}]


def test_the_project_uses_it() -> None:
    assert isinstance(default._connections[default._alias], RedisCache)  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", VALUES)
def test_what_is_written_is_read(cache: RedisCache, value: Any) -> None:
    cache.set("k", value)
    found = cache.get("k", "default")
    assert (type(found), found) == (type(value), value)
    assert cache.has_key("k") and not cache.has_key("other")
    assert cache.get_many(["k", "other"]) == {"k": value}
    assert cache.delete("k") and not cache.delete("k")
    assert cache.get("k", "default") == "default"


@pytest.mark.parametrize(
    "value", [object(), b"x", (1, 2), {1: 2}, float("nan"), {"a": {3}}, [("a",)], pickle]
)
def test_what_json_cannot_hold_is_an_error_that_names_the_key(
    cache: RedisCache, value: Any
) -> None:
    for write in (cache.set, cache.add):
        with pytest.raises(TypeError, match="the-key"):
            write("the-key", value)
    assert not cache.has_key("the-key")


def test_values_go_in_time(cache: RedisCache) -> None:
    cache.set("k", 1, timeout=0.05)
    cache.set("gone", 1)
    cache.set("gone", 1, timeout=0)
    cache.set("stays", 1, timeout=None)
    cache.set("touched", 1, timeout=0.05)
    assert cache.touch("touched", 60) and cache.touch("stays", None) and not cache.touch("none")
    wait_until(lambda: not cache.has_key("k"))
    assert cache.get_many(["gone", "stays", "touched"]) == {"stays": 1, "touched": 1}


def test_one_of_several_adds(cache: RedisCache) -> None:
    assert cache.add("k", 1) and not cache.add("k", 2)
    assert cache.get("k") == 1
    assert cache.add("short", 1, timeout=0) and not cache.has_key("short")


# ---- what others write


@pytest.mark.parametrize("secret", ["another", None])
def test_what_was_forged_is_a_miss(cache: RedisCache, redis: Any, secret: str | None) -> None:
    cache.set("k", {"rate": 1})
    mine, place = cache._read(cache.make_key("k")), cache.make_key("k")
    assert mine is not None
    with override_settings(SECRET_KEY=secret or django_settings.SECRET_KEY):
        cache.set("other", {"rate": 9})
    forged = [
        pickle.dumps({"rate": 9}), b"", b"5", b'{"rate":9}', b"j1", mine[:-1], mine + b" ",
        mine.replace(b'"rate":1', b'"rate":9'), b"j2" + mine[2:], b"\xff" * 100,
        cache._read(cache.make_key("other")),  # moved from another key
    ]  # fmt: skip
    for value in forged:
        redis.set(place, value)
        assert cache.get("k") is None and not cache.has_key("k") and cache.get_many(["k"]) == {}
        with pytest.raises(ValueError, match="not found"):
            cache.incr("k")
        assert cache.add("k", "mine") and cache.get("k") == "mine"
    redis.set(place, mine)
    assert cache.get("k") == {"rate": 1}


@pytest.mark.parametrize("kind", ["rpush", "sadd"])
def test_a_key_of_another_type_is_a_miss(cache: RedisCache, redis: Any, kind: str) -> None:
    getattr(redis, kind)(cache.make_key("k"), "x")
    assert cache.get("k") is None and cache.get_many(["k"]) == {} and not cache.has_key("k")
    cache.set("k", 1)
    assert cache.get("k") == 1


def test_a_new_key_reads_what_an_old_one_has_written(cache: RedisCache) -> None:
    cache.set("k", 1)
    old = django_settings.SECRET_KEY
    with override_settings(SECRET_KEY="new"):
        assert cache.get("k") is None
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=[old]):
        assert cache.get("k") == 1
        cache.set("k", 2)
    assert cache.get("k") is None


def test_clearing_leaves_what_is_not_the_caches(cache: RedisCache, redis: Any) -> None:
    other = f"other:{uuid4()}"
    redis.set(other, 1)
    for number in range(2500):
        cache.set(f"k{number}", number)
    odd = RedisCache(cache._location, {"KEY_PREFIX": "a*[b]"})
    odd.set("k", 1)
    RedisCache(cache._location, {"KEY_PREFIX": "a*"}).clear()
    assert odd.get("k") == 1
    odd.clear()
    cache.clear()
    assert redis.exists(other) and not cache.has_key("k7") and not odd.has_key("k")
    assert not list(redis.scan_iter(match=f"{cache.key_prefix}:*", count=1000))
    redis.delete(other)


# ---- counting


def test_a_counter_counts_whoever_counts(cache: RedisCache, redis: Any) -> None:
    cache.set("k", 0, timeout=60)

    def count() -> None:
        own = RedisCache(cache._location, {"KEY_PREFIX": cache.key_prefix})
        for _ in range(25):
            own.incr("k", 2)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert cache.get("k") == 200 and cache.decr("k", 5) == 195
    assert 0 < redis.pttl(cache.make_key("k")) <= 60_000


def test_only_a_number_counts(cache: RedisCache) -> None:
    with pytest.raises(ValueError, match="not found"):
        cache.incr("k")
    for value in ("5", True, 1.5, None):
        cache.set("k", value)
        with pytest.raises(ValueError, match="no whole number"):
            cache.incr("k")


def test_a_redis_that_is_away_is_not_waited_for() -> None:
    away = RedisCache("redis://127.0.0.1:1/0", {})
    with pytest.raises(clients.Unavailable):
        away.get("k")
