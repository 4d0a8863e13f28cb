"""Clients of Redis, whatever RQ_QUEUES says: every connection has bounded timeouts and no retries.

RQ_QUEUES describes where Redis is. How long to wait for it is decided here, because a default of
redis-py may be minutes or for ever, and differs between its versions and between ways to connect.
"""

from __future__ import annotations

import copy
import functools
import socket
from typing import Any

import django_rq
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from jobs import conf

Unavailable = (redis.RedisError, OSError)
"""What any Redis call may raise while Redis is away."""
Refused = redis.ResponseError
"""What Redis answers to a command that it will not carry out."""
TimedOut = (redis.TimeoutError, TimeoutError)
"""What a Redis call raises when no answer came in time."""

LONGEST_WAIT = 1.0
"""Seconds that a blocking command may wait."""
COMMAND_TIMEOUT = LONGEST_WAIT + 2.0
"""Seconds until a worker or dispatcher gives an answer up. A save or a slow script may hold Redis
up for a second or two without anything being wrong."""
CONNECT_TIMEOUT = 1.0
PUSH_TIMEOUT = 0.2
"""Seconds that a web request may wait for Redis, all in all."""
REGISTRY_TIMEOUT = 1.0
"""For RQ's registry of workers, which only people look at."""

_KEEPALIVE = {
    getattr(socket, name): value
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
}
# What redis-py adds to the arguments of a pool's connections and expects to make again. With its
# maintenance notifications, a server could raise the timeouts of a connection.
_OF_A_POOL = frozenset({
    "connection_pool", "maint_notifications_pool_handler", "maint_notifications_config",
    "oss_cluster_maint_notifications_handler", "orig_host_address", "orig_socket_timeout",
    "orig_socket_connect_timeout",
})  # fmt: skip


class StillAway(redis.ConnectionError):
    """Redis did not answer a moment ago, so it was not asked again."""


@functools.cache
def client() -> redis.Redis:
    """Return the client of workers, dispatchers and pages; thread-safe, and usable after a fork."""
    return connect(CONNECT_TIMEOUT, COMMAND_TIMEOUT)


@functools.cache
def push_client() -> redis.Redis:
    """Return a client that gives up quickly, from which each thread takes its wire."""
    return connect(PUSH_TIMEOUT, PUSH_TIMEOUT)


def forget() -> None:
    """Make new clients at the next call (after a change of settings)."""
    client.cache_clear()
    push_client.cache_clear()


def connect(connecting: float, command: float) -> redis.Redis:
    """Return a new client, with seconds to connect in and seconds to wait for each answer."""
    described = django_rq.get_connection(conf.settings().CONNECTION)
    return _bounded(described.connection_pool, connecting, command)


def at(url: str) -> redis.Redis:
    """Return a new client of the Redis at an address, which is no other's."""
    return _bounded(redis.Redis.from_url(url).connection_pool, CONNECT_TIMEOUT, COMMAND_TIMEOUT)


def _bounded(pool: Any, connecting: float, command: float) -> redis.Redis:
    """Return a client that connects to the same place as the pool does."""
    kind = pool.connection_class
    settings: dict[str, Any] = {
        **{name: value for name, value in pool.connection_kwargs.items() if name not in _OF_A_POOL},
        "socket_connect_timeout": connecting,
        "socket_timeout": command,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_timeout": False,
        "retry_on_error": [],
        # Ids are read as bytes.
        "decode_responses": False,
    }
    if "maint_notifications_config" in pool.connection_kwargs:
        config = pool.connection_kwargs["maint_notifications_config"]
        settings["maint_notifications_config"] = config and type(config)(enabled=False)
    if issubclass(kind, redis.Connection):  # and no unix socket
        settings["socket_keepalive"] = True
        if not isinstance(settings.get("socket_keepalive_options"), dict):
            settings["socket_keepalive_options"] = _KEEPALIVE
    if not isinstance(pool, SentinelConnectionPool):
        own: Any = redis.ConnectionPool(connection_class=kind, **settings)
    else:
        own = SentinelConnectionPool(  # type: ignore[no-untyped-call]
            pool.service_name,
            _bounded_sentinel(pool.sentinel_manager, connecting),
            connection_class=kind,
            is_master=pool.is_master,
            check_connection=pool.check_connection,
            **settings,
        )
    return redis.Redis(connection_pool=own)


def _bounded_sentinel(described: Any, seconds: float) -> Any:
    """Return the same sentinels, each of which is asked once and not waited for any longer."""
    own = copy.copy(described)
    own.sentinels = [_bounded(s.connection_pool, seconds, seconds) for s in described.sentinels]
    return own
