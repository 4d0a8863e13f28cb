"""Everything that touches RQ or Redis: pushing and taking ids, and the worker that RQ sees.

Redis holds hints. A message is the id of a job and nothing else of value; what is read here is
parsed as a UUID or dropped, and never imported, unpickled or called.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from uuid import UUID

import redis
import rq
from rq import version

from jobs.engine import clients, marks
from jobs.engine.clients import client as client
from jobs.engine.outage import briefly, outage
from jobs.engine.wire import forget as forget_wire
from jobs.engine.wire import wire

T = TypeVar("T")

Unavailable = clients.Unavailable
Refused = clients.Refused

EPOCH = "jobs:epoch"
FEED = "jobs:feed"
"""The channel on which the feed's new head is called out."""
REGISTRY = "jobs:registry"
"""Which entries of RQ's registry of workers are ours, and the queues under which they stand."""
DISPATCHER_TTL = 15


def _key(*parts: str) -> str:
    """Return a key of this database's own: others on the same Redis database have other keys."""
    return ":".join(("jobs", marks.mark(), *parts))


def queue_key(queue: str) -> str:
    """Return the list of a queue. It is none of RQ's lists, which belong to others."""
    return _key("queue", queue)


def _seq_key(queue: str) -> str:
    return _key("seq", queue)


def _open_key(queue: str) -> str:
    return _key("open", queue)


def nudge_key() -> str:
    """Return the list on which an idle dispatcher waits."""
    return _key("nudge")


def dispatchers_key() -> str:
    """Return the set of the dispatchers that were heard of."""
    return _key("dispatchers")


def forget_clients() -> None:
    """The next call connects again (after a change of settings)."""
    clients.forget()
    forget_wire()
    outage.forget()
    _script.cache_clear()


# One script per push: the ids, and the push counter by which a Redis that lost its newest writes is
# recognised. A key of the wrong type, or a counter that cannot count, can only have been put there
# by a stranger, and is removed.
_PUSH = """
local function insist(command, key, ...)
  local answer = redis.pcall(command, key, ...)
  if type(answer) == 'table' and answer.err then
    redis.call('DEL', key)
    answer = redis.call(command, key, ...)
  end
  return answer
end
local length = 0
for i = 1, #ARGV, 1000 do
  length = insist('RPUSH', KEYS[1], unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
local seq = redis.pcall('INCR', KEYS[2])
if type(seq) ~= 'number' or seq > 9e15 then
  redis.call('SET', KEYS[2], 1)
  seq = 1
end
return {length, seq}
"""

# Takes up to ARGV[1] ids from the first lists that have any.
_TAKE = """
local want = tonumber(ARGV[1])
local taken = {}
for k = 1, #KEYS do
  local ids = false
  if want > 0 and redis.call('TYPE', KEYS[k]).ok == 'list' then
    ids = redis.call('LPOP', KEYS[k], want)
  end
  ids = ids or {}
  want = want - #ids
  taken[k] = ids
end
return taken
"""


@functools.cache
def _script(text: str) -> Any:
    return client().register_script(text)


def _mended(command: Callable[[], T], kind: bytes, *keys: str | bytes) -> T:
    """The command's answer, if need be after keys of another type than ``kind`` are gone.

    Only a stranger can have put them there.
    """
    try:
        return command()
    except redis.ResponseError:
        for key in keys:
            if client().type(key) not in (kind, b"none"):
                client().delete(key)
        return command()


def push(queue: str, ids: Sequence[UUID]) -> tuple[int, int]:
    """Put the ids into the list; return its length and the push counter."""
    script, keys, arguments = pushing(queue, ids)
    length, seq = _script(script)(keys=keys, args=arguments)
    return int(length), int(seq)


def pushing(queue: str, ids: Sequence[UUID]) -> tuple[str, list[str], list[str | int]]:
    """The script, keys and arguments by which the ids are pushed; it answers as ``push`` does."""
    return _PUSH, [queue_key(queue), _seq_key(queue)], [*map(str, ids)]


def take(queues: Sequence[str], want: int) -> dict[str, list[UUID]]:
    """Up to ``want`` ids by queue, in the order of the queues, without waiting."""
    keys = [queue_key(queue) for queue in queues]
    taken = _script(_TAKE)(keys=keys, args=[want])
    return {
        queue: ids
        for queue, raw in zip(queues, taken, strict=True)
        if (ids := list(parse_ids(raw)))
    }


def wait(queues: Sequence[str], timeout: float) -> tuple[str, list[UUID]] | None:
    """The first id to arrive in any of the lists, or None after ``timeout`` seconds."""
    keys = {queue_key(queue).encode(): queue for queue in queues}
    popped = cast(
        "list[bytes] | None",
        _mended(lambda: client().blpop(list(keys), timeout=_bounded(timeout)), b"list", *keys),
    )
    if popped is None:
        return None
    return keys[popped[0]], list(parse_ids([popped[1]]))


def _bounded(timeout: float) -> float:
    return min(timeout, clients.LONGEST_WAIT)


def give_back(queue: str, ids: Sequence[UUID]) -> None:
    """The ids, taken and not used, are the first in the list again."""
    if ids:
        key = queue_key(queue)
        _mended(lambda: client().lpush(key, *map(str, reversed(ids))), b"list", key)


def parse_ids(raw: Iterable[bytes | str]) -> Iterable[UUID]:
    """The items that are UUIDs in their usual spelling; everything else is dropped."""
    for item in raw:
        if len(item) != 36:
            continue
        try:
            yield UUID(item.decode() if isinstance(item, bytes) else item)
        except (ValueError, UnicodeDecodeError):
            continue


def length(queue: str) -> int:
    """How many ids wait in the list; 0 where a stranger left something else."""
    try:
        return client().llen(queue_key(queue))
    except redis.ResponseError:
        return 0


def listed(queue: str, limit: int = 0) -> set[UUID]:
    """Return the ids in the list; with a limit, only the first ones."""
    try:
        found = client().lrange(queue_key(queue), 0, limit - 1)
    except redis.ResponseError:
        return set()
    return set(parse_ids(cast("list[bytes]", found)))


def epoch(candidate: str) -> str:
    """The mark of this Redis's life: the stored one, or ``candidate`` where there was none."""
    # Not by one SET NX GET, which is new in Redis 7.0.
    stored = _mended(lambda: client().get(EPOCH), b"string", EPOCH)
    if stored is None and not client().set(EPOCH, candidate, nx=True):
        stored = client().get(EPOCH)
    return candidate if stored is None else cast("bytes", stored).decode(errors="replace")


def push_counter(queue: str) -> int:
    """How many pushes this Redis remembers for the queue."""
    try:
        return int(cast("bytes | None", client().get(_seq_key(queue))) or 0)
    except (redis.ResponseError, ValueError):
        return 0


def set_open(queue: str, ttl: float) -> None:
    """Says that due jobs of the queue may be born queued, for the next ``ttl`` seconds."""
    client().set(_open_key(queue), 1, px=int(ttl * 1000))


def try_shut(queues: Sequence[str]) -> None:
    """Due jobs of the queues are not born queued any more; nothing where Redis is away."""
    if queues:
        with suppress(*Unavailable):
            wire().ask("DEL", *map(_open_key, queues))


def is_open(queue: str) -> bool:
    """Whether a dispatcher lately said that due jobs may be born queued."""
    return bool(wire().ask("EXISTS", _open_key(queue)))


# Many nudges are one nudge: an idle dispatcher wakes up and looks at everything.
_NUDGE = """
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'list' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end
redis.call('LPUSH', KEYS[1], 1)
redis.call('LTRIM', KEYS[1], 0, 15)
redis.call('EXPIRE', KEYS[1], 60)
"""


def nudging() -> tuple[str, list[str], list[str | int]]:
    """The script, keys and arguments by which an idle dispatcher is woken."""
    return _NUDGE, [nudge_key()], []


def await_nudge(timeout: float) -> bool:
    """True as soon as somebody nudges, False after ``timeout`` seconds."""
    # The nudges of a burst are one nudge.
    key, wait = nudge_key(), _bounded(timeout)
    if _mended(lambda: client().blpop([key], timeout=wait), b"list", key) is None:
        return False
    client().delete(key)
    return True


_RING = "redis.call('PUBLISH', KEYS[1], ARGV[1])"


def ringing(position: int) -> tuple[str, list[str], list[str | int]]:
    """The script, keys and arguments by which live listeners learn how far the feed goes."""
    return _RING, [FEED], [position]


_LISTENS_FOR = 3
"""Seconds without any answer to a ping after which a connection counts as dead."""


def hear_rings(over: threading.Event, rung: Callable[[bool], object]) -> None:
    """Calls ``rung`` whenever the feed has grown, until ``over``; for a thread of its own.

    It is called with False when nothing can be heard any more, and with True when it can again.
    """
    while not over.is_set():
        try:
            redis_: Any = client()
            with redis_.pubsub(ignore_subscribe_messages=True) as listener:
                listener.subscribe(FEED)
                listener.get_message(timeout=1.0)
                rung(True)
                silent = 0
                while not over.is_set():
                    message = listener.get_message(timeout=1.0)
                    silent = 0 if message else silent + 1
                    if message and message["type"] == "message":
                        rung(True)
                    elif silent > _LISTENS_FOR:
                        raise TimeoutError("Redis does not answer a ping")
                    elif silent:
                        listener.ping()
        except Unavailable:
            rung(False)
            over.wait(1.0)


def is_first(key: str, seconds: int) -> bool:
    """Whether nobody has asked this about the key in this many seconds."""
    return bool(briefly(lambda: client().set(key, 1, nx=True, ex=seconds)))


# By the clock of Redis, because those of two hosts may differ by more than the time to live.
_NOTE_DISPATCHER = """
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
if ARGV[2] then
  redis.call('ZADD', KEYS[1], now, ARGV[2])
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return redis.call('ZRANGE', KEYS[1], 0, -1)
"""


def note_dispatcher(name: str) -> None:
    """The dispatcher counts as live for the next ``DISPATCHER_TTL`` seconds."""
    _dispatchers(name)


def live_dispatchers() -> list[str]:
    """The names of the dispatchers that were heard of lately."""
    key = dispatchers_key()  # another thread asks Redis, and has no connection to the database
    return [name.decode(errors="replace") for name in briefly(lambda: _dispatchers(key=key))]


def _dispatchers(*noted: str, key: str = "") -> list[bytes]:
    key = key or dispatchers_key()

    def run() -> list[bytes]:
        found = _script(_NOTE_DISPATCHER)(keys=[key], args=[DISPATCHER_TTL, *noted])
        return cast("list[bytes]", found)

    return _mended(run, b"zset", key)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a Redis server says of itself."""

    version: str
    used: str
    policy: str


def server_info() -> ServerInfo:
    """Version, memory in use and eviction policy of the Redis server.

    Whoever asks is not a request, and may wait for a connection to a Redis far away.
    """
    info = briefly(lambda: client().info(), clients.COMMAND_TIMEOUT)
    version = info.get("valkey_version") or info["redis_version"]
    return ServerInfo(str(version), info["used_memory_human"], info.get("maxmemory_policy", ""))


def rehearse() -> None:
    """Run the scripts that move ids, on a queue of no name; raises what Redis has against them."""
    name = "jobs-probe."
    pushed, taken = pushing(name, []), queue_key(name)

    def run() -> None:
        script, keys, arguments = pushed
        _script(script)(keys=keys, args=arguments)
        _script(_TAKE)(keys=[taken], args=[1])
        client().delete(*keys)

    briefly(run, clients.COMMAND_TIMEOUT)


_COUNT = """
if ARGV[1] == '0' and redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local count = redis.pcall('INCRBY', KEYS[1], ARGV[1])
if type(count) ~= 'number' then
  redis.call('SET', KEYS[1], ARGV[1])
  count = tonumber(ARGV[1])
end
if count == tonumber(ARGV[1]) then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
return count
"""


def count(name: str, more: int, seconds: int) -> int:
    """Add to the counter of this name, which is forgotten after this many seconds; return it.

    It is a number to Redis itself, and nothing else is ever read here.
    """
    return int(wire().ask("EVAL", _COUNT, 1, _key("count", name), more, seconds))


# By the clock of Redis, as the dispatchers. A bound of 0 is none.
_HOLD_SEAT = """
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local most = tonumber(ARGV[2])
if most > 0 and redis.call('ZCARD', KEYS[1]) >= most then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3] + 1)
return 1
"""


def hold_seat(name: str, holder: str, most: int, seconds: int) -> bool:
    """Hold one of ``most`` seats for this many seconds; return False where all of them are held."""
    key = _key("seats", name)
    ask = ("EVAL", _HOLD_SEAT, 1, key, holder, most, seconds)
    return bool(_mended(lambda: wire().ask(*ask), b"zset", key))


def leave_seat(name: str, holder: str) -> None:
    """Free the seat."""
    key = _key("seats", name)
    _mended(lambda: wire().ask("ZREM", key, holder), b"zset", key)


_STOCK_LIMIT = 500
"""This many workers of RQ are looked at; a stranger could invent any number."""


def stock_workers() -> list[str]:
    """Return the names of RQ's own workers on this Redis, which are no workers of ours."""

    def look() -> list[str]:
        try:
            found = cast("list[bytes]", client().srandmember("rq:workers", _STOCK_LIMIT))
            found = sorted(set(found) - set(cast("list[bytes]", client().hkeys(REGISTRY))))
        except redis.ResponseError:
            return []
        alive = [key for key in found if client().exists(key)]
        return [key.decode(errors="replace").removeprefix("rq:worker:") for key in alive]

    return briefly(look, clients.COMMAND_TIMEOUT)


# A worker that was killed could not take itself off RQ's lists, and RQ's own maintenance does not
# run here. Its hash goes by itself.
_FORGET_DEAD = """
local gone = 0
local found = redis.call('HRANDFIELD', KEYS[1], ARGV[1], 'WITHVALUES')
for i = 1, #found, 2 do
  if redis.call('EXISTS', found[i]) == 0 then
    redis.pcall('SREM', 'rq:workers', found[i])
    for queue in string.gmatch(found[i + 1], '[^,]+') do
      redis.pcall('SREM', 'rq:workers:' .. queue, found[i])
    end
    redis.call('HDEL', KEYS[1], found[i])
    gone = gone + 1
  end
end
return gone
"""


def forget_dead_workers() -> int:
    """Take workers of ours without a sign of life off RQ's lists; return how many there were."""

    def forget() -> int:
        return int(_script(_FORGET_DEAD)(keys=[REGISTRY], args=[_STOCK_LIMIT]))

    return _mended(forget, b"hash", REGISTRY)


class JobsWorker(rq.Worker):
    """The worker as RQ's registry shows it: RQ's name, heartbeat and queues, our way of working.

    RQ's own dequeuing, forking, retrying and maintenance are not used: PostgreSQL decides. It
    stands there under names of queues that no worker of RQ listens to.
    """

    def __init__(self, name: str, queues: Sequence[str], run: Callable[[], int]) -> None:
        super().__init__(
            [f"jobs:{queue}" for queue in queues],
            name=name,
            connection=clients.connect(clients.REGISTRY_TIMEOUT, clients.REGISTRY_TIMEOUT),
            serializer="rq.serializers.JSONSerializer",
            prepare_for_work=False,
        )
        self.hostname, self.pid, self.ip_address = socket.gethostname(), os.getpid(), "unknown"
        self._run = run

    def work(self, *_: Any, **__: Any) -> bool:
        """Supervises executors until asked to stop; true when it ended as it should."""
        return self._run() == 0

    def _set_connection(self, connection: redis.Redis) -> redis.Redis:
        """Keep the client's timeouts: RQ would wait for 415 seconds."""
        return connection

    def announce(self) -> None:
        """RQ's registry shows this worker as alive, also after Redis was wiped."""
        if self.connection.exists(self.key):
            self.heartbeat()
        else:
            self.register_birth()  # type: ignore[no-untyped-call]
        self.connection.hset(REGISTRY, self.key, ",".join(self.queue_names()))

    def run_maintenance_tasks(self) -> None:
        """Nothing: RQ's clean-up fails and repeats jobs by the clock of Redis."""


def self_test() -> None:
    """Fails at start-up when this RQ lacks a method that the worker overrides or calls."""
    names = ("work", "heartbeat", "register_birth", "register_death", "run_maintenance_tasks",
             "_set_connection")  # fmt: skip
    missing = [name for name in names if not callable(getattr(rq.Worker, name, None))]
    if missing:
        raise RuntimeError(f"rq {version.VERSION} has no Worker.{', Worker.'.join(missing)}")
