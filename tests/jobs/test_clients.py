"""Every client of Redis gives up in time, whatever RQ_QUEUES says and whichever way it connects."""

from __future__ import annotations

import sys
import time
from types import ModuleType
from typing import Any

import pytest
import redis

from jobs.engine import clients, rq
from tests.redis import redis_at, seconds, silent

SENTINELS = {"SENTINELS": [("10.0.0.1", 26379), ("10.0.0.2", 26379)], "MASTER_NAME": "jobs"}
DESCRIBED: dict[str, dict[str, Any]] = {
    "url": {"URL": "redis://user:secret@10.0.0.1:6379/3"},
    "url, patient": {"URL": "redis://10.0.0.1/3?socket_timeout=600&socket_connect_timeout=600"},
    "url, tls": {"URL": "rediss://10.0.0.1/3"},
    "url, decoded": {"URL": "redis://10.0.0.1/3?decode_responses=yes&protocol=2"},
    "unix url": {"URL": "unix:///run/redis.sock?db=3"},
    "host": {"HOST": "10.0.0.1", "PORT": 6379, "DB": 3},
    "host, retries": {
        "HOST": "10.0.0.1",
        "PORT": 6379,
        "DB": 3,
        "REDIS_CLIENT_KWARGS": {"retry_on_error": [OSError], "socket_timeout": None},
    },
    "unix path": {"UNIX_SOCKET_PATH": "/run/redis.sock", "DB": 3},
    "sentinels": {**SENTINELS, "DB": 3},
    "sentinels, patient": {
        **SENTINELS,
        "DB": 3,
        "SOCKET_TIMEOUT": 600,
        "SENTINEL_KWARGS": {"password": "secret", "socket_timeout": 600},
        "CONNECTION_KWARGS": {"ssl": True},
    },
    "cache": {"USE_REDIS_CACHE": "default"},
}


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """What django-redis offers."""
    module: Any = ModuleType("django_redis")
    module.get_redis_connection = lambda name: redis.Redis.from_url("redis://10.0.0.1/3")
    monkeypatch.setitem(sys.modules, "django_redis", module)


def connections(client: redis.Redis) -> list[Any]:
    """One connection to the server, and one to each sentinel on the way; not connected."""
    pool = client.connection_pool
    made = [pool.connection_class(**pool.connection_kwargs)]
    manager = getattr(pool, "sentinel_manager", None)
    for sentinel in manager.sentinels if manager else []:
        made += connections(sentinel)
    return made


@pytest.mark.parametrize("described", DESCRIBED.values(), ids=DESCRIBED)
def test_every_connection_gives_up_in_time(described: dict[str, Any], cache: None) -> None:
    with redis_at(**described):
        bounds = {
            rq.client(): (clients.CONNECT_TIMEOUT, clients.COMMAND_TIMEOUT),
            clients.push_client(): (clients.PUSH_TIMEOUT, clients.PUSH_TIMEOUT),
            rq.JobsWorker("w", ["default"], int).connection: (1.0, 1.0),
        }
        for client, (connecting, command) in bounds.items():
            for number, made in enumerate(connections(client)):
                assert made.socket_connect_timeout == connecting
                assert made.socket_timeout == (connecting if number else command)
                assert made.retry._retries == 0
                assert not made.retry_on_error
                assert not made.encoder.decode_responses
                assert getattr(made, "socket_keepalive", True)
            assert made.db == (0 if number else 3)


def test_credentials_and_addresses_stay() -> None:
    with redis_at(**DESCRIBED["url"]):
        [made] = connections(rq.client())
        assert (made.host, made.port, made.username, made.password) == (
            "10.0.0.1", 6379, "user", "secret",
        )  # fmt: skip
    with redis_at(**DESCRIBED["sentinels, patient"]):
        master, *others = connections(rq.client())
        assert isinstance(master, redis.sentinel.SentinelManagedSSLConnection)
        assert [(s.host, s.port, s.password) for s in others] == [
            ("10.0.0.1", 26379, "secret"),
            ("10.0.0.2", 26379, "secret"),
        ]


def test_answers_are_bytes_whatever_the_url_says(queue: str) -> None:
    from django.conf import settings

    url = settings.RQ_QUEUES["default"]["URL"]
    with redis_at(f"{url}{'&' if '?' in url else '?'}decode_responses=yes"):
        assert isinstance(rq.client().echo("x"), bytes)
        rq.note_dispatcher("d1")
        assert "d1" in rq.live_dispatchers()
        rq.client().delete(rq.dispatchers_key())


def test_a_silent_server_holds_nobody_up_for_long() -> None:
    with silent() as port, redis_at(f"redis://127.0.0.1:{port}?socket_timeout=60"):
        worker = rq.JobsWorker("w", ["default"], int)
        assert seconds(worker.announce, times=1) < 2 * clients.REGISTRY_TIMEOUT
        assert seconds(worker.register_death, times=1) < 2 * clients.REGISTRY_TIMEOUT


@pytest.mark.django_db
def test_a_wait_ends_although_its_answer_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "COMMAND_TIMEOUT", 0.3)
    with silent() as port, redis_at(f"redis://127.0.0.1:{port}?socket_timeout=60"):
        began = time.monotonic()
        with pytest.raises(rq.Unavailable):
            rq.wait(["default"], 0.1)
        assert time.monotonic() - began < 5


def test_a_blocking_wait_is_shorter_than_the_timeout_of_its_connection(
    queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clients.LONGEST_WAIT < clients.COMMAND_TIMEOUT
    monkeypatch.setattr(clients, "LONGEST_WAIT", 0.05)
    rq.client().delete(rq.nudge_key())
    assert rq.wait([queue], 60) is None
    assert rq.await_nudge(60) is False
