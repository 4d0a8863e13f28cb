"""Everything that touches RQ or Redis: pushing and taking ids, and the worker that RQ sees.

Redis holds hints. A message is the id of a job and nothing else of value; what is read here is
parsed as a UUID or dropped, and never imported, unpickled or called.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from uuid import UUID

import django_rq
import redis
import rq
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import version

from jobs import conf
from jobs.names import name_problem

T = TypeVar("T")

Unavailable = (redis.RedisError, OSError)
"""What any Redis call may raise while Redis is away."""
Refused = redis.ResponseError
"""What Redis answers to a command that it will not carry out."""

EPOCH = "jobs:epoch"
NUDGE = "jobs:nudge"
FEED = "jobs:feed"
"""The channel on which the feed's new head is called out."""
DISPATCHERS = "jobs:dispatchers"
DISPATCHER_TTL = 15.0
HASH_TTL = 86400
PUSH_TIMEOUT = 0.2
ENTRY = "jobs.engine.stock.perform"
"""The function that a stock rqworker is told to call, with the job's id as its only argument."""


def queue_key(queue: str) -> str:
    """RQ's list of a queue."""
    return f"rq:queue:{queue}"


def intermediate_key(queue: str) -> str:
    """The list in which a stock rqworker parks an id between pop and start."""
    return f"rq:queue:{queue}:intermediate"


def _seq_key(queue: str) -> str:
    return f"jobs:seq:{queue}"


def _open_key(queue: str) -> str:
    return f"jobs:open:{queue}"


@functools.cache
def client() -> redis.Redis:
    """This process's Redis client, as RQ_QUEUES describes it; fork-safe, thread-safe."""
    return django_rq.get_connection(conf.settings().CONNECTION)


@functools.cache
def push_client() -> redis.Redis:
    """A client that gives up quickly: a request must not wait for Redis."""
    base = client()
    settings = {
        **base.connection_pool.connection_kwargs,
        "socket_timeout": PUSH_TIMEOUT,
        "socket_connect_timeout": PUSH_TIMEOUT,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
    }
    pool = redis.ConnectionPool(connection_class=base.connection_pool.connection_class, **settings)
    return redis.Redis(connection_pool=pool)


def forget_clients() -> None:
    """The next call connects anew (after a change of settings)."""
    client.cache_clear()
    push_client.cache_clear()
    _script.cache_clear()


# One script per push: the hashes that a stock rqworker needs, the ids, and the push counter by
# which a Redis that lost its newest writes is recognised. A key of the wrong type, or a counter
# that cannot count, can only have been put there by a stranger, and is removed.
_PUSH = """
local function insist(command, key, ...)
  local answer = redis.pcall(command, key, ...)
  if type(answer) == 'table' and answer.err then
    redis.call('DEL', key)
    answer = redis.call(command, key, ...)
  end
  return answer
end
local ids = {}
for i = 5, #ARGV, 2 do
  local id = ARGV[i]
  local key = 'rq:job:' .. id
  redis.call('DEL', key)
  redis.call('HSET', key, 'data', '["' .. ARGV[3] .. '",null,["' .. id .. '"],{}]',
    'origin', ARGV[1], 'status', 'queued', 'created_at', ARGV[2],
    'timeout', ARGV[i + 1], 'result_ttl', '0', 'failure_ttl', '60')
  redis.call('EXPIRE', key, ARGV[4])
  ids[#ids + 1] = id
end
insist('SADD', 'rq:queues', KEYS[1])
local length = 0
for i = 1, #ids, 1000 do
  length = insist('RPUSH', KEYS[1], unpack(ids, i, math.min(i + 999, #ids)))
end
local seq = redis.pcall('INCR', KEYS[2])
if type(seq) ~= 'number' or seq > 9e15 then
  redis.call('SET', KEYS[2], 1)
  seq = 1
end
return {length, seq}
"""

# Takes up to ARGV[1] ids from the first lists that have any, and forgets the hashes of those
# ids and of the ids given behind: whoever claims them needs only the row.
_TAKE = """
local want = tonumber(ARGV[1])
local taken = {}
for k = 1, #KEYS do
  local ids = false
  if want > 0 and redis.call('TYPE', KEYS[k]).ok == 'list' then
    ids = redis.call('LPOP', KEYS[k], want)
  end
  ids = ids or {}
  for i = 1, #ids do
    if #ids[i] == 36 then redis.call('UNLINK', 'rq:job:' .. ids[i]) end
  end
  want = want - #ids
  taken[k] = ids
end
for i = 2, #ARGV do redis.call('UNLINK', 'rq:job:' .. ARGV[i]) end
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


def push(queue: str, ids: Sequence[tuple[UUID, float]]) -> tuple[int, int]:
    """The ids (with their timeouts) are in the list; answers its length and the push counter."""
    script, keys, arguments = pushing(queue, ids)
    length, seq = _script(script)(keys=keys, args=arguments)
    return int(length), int(seq)


def pushing(
    queue: str, ids: Sequence[tuple[UUID, float]]
) -> tuple[str, list[str], list[str | int]]:
    """The script, keys and arguments by which the ids are pushed; it answers as ``push`` does."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    arguments: list[str | int] = [queue, stamp, ENTRY, HASH_TTL]
    for job_id, timeout in ids:
        # A stock worker kills its child a minute after this; the lease decides long before.
        arguments += (str(job_id), int(timeout) + 10)
    return _PUSH, [queue_key(queue), _seq_key(queue)], arguments


def take(queues: Sequence[str], want: int, forget: Sequence[UUID] = ()) -> dict[str, list[UUID]]:
    """Up to ``want`` ids by queue, in the order of the queues, without waiting."""
    keys = [queue_key(queue) for queue in queues]
    taken = _script(_TAKE)(keys=keys, args=[want, *map(str, forget)])
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
        _mended(lambda: client().blpop(list(keys), timeout=timeout), b"list", *keys),
    )
    if popped is None:
        return None
    return keys[popped[0]], list(parse_ids([popped[1]]))


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


def listed(queue: str) -> set[UUID]:
    """The ids in the list.

    Those that a stock rqworker has parked between pop and start are not counted: it parks them
    for a moment, or for ever because it died.
    """
    try:
        return set(parse_ids(cast("list[bytes]", client().lrange(queue_key(queue), 0, -1))))
    except redis.ResponseError:
        return set()


def drop_intermediate(queue: str, ids: Sequence[UUID]) -> None:
    """The ids have left the intermediate list."""
    key = intermediate_key(queue)
    pipe = client().pipeline(transaction=False)
    for job_id in ids:
        pipe.lrem(key, 0, str(job_id))
    # A key of another type has no ids in it, and nobody here needs to mend it.
    pipe.execute(raise_on_error=False)


def epoch(candidate: str) -> str:
    """The mark of this Redis's life: the stored one, or ``candidate`` where there was none."""
    stored = cast(
        "bytes | None",
        _mended(lambda: client().set(EPOCH, candidate, nx=True, get=True), b"string", EPOCH),
    )
    return stored.decode(errors="replace") if stored is not None else candidate


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
            push_client().delete(*map(_open_key, queues))


def is_open(queue: str) -> bool:
    """Whether a dispatcher lately said that due jobs may be born queued."""
    return bool(push_client().exists(_open_key(queue)))


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
    return _NUDGE, [NUDGE], []


def await_nudge(timeout: float) -> bool:
    """True as soon as somebody nudges, False after ``timeout`` seconds."""
    # The nudges of a burst are one nudge.
    if _mended(lambda: client().blpop([NUDGE], timeout=timeout), b"list", NUDGE) is None:
        return False
    client().delete(NUDGE)
    return True


_RING = "redis.call('PUBLISH', KEYS[1], ARGV[1])"


def ringing(position: int) -> tuple[str, list[str], list[str | int]]:
    """The script, keys and arguments by which live listeners learn how far the feed goes."""
    return _RING, [FEED], [position]


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
                while not over.is_set():
                    if listener.get_message(timeout=1.0) is not None:
                        rung(True)
        except Unavailable:
            rung(False)
            over.wait(1.0)


def is_first(key: str, seconds: int) -> bool:
    """Whether nobody has asked this about the key in so many seconds."""
    return bool(client().set(key, 1, nx=True, ex=seconds))


def note_dispatcher(name: str) -> None:
    """The dispatcher counts as live for the next ``DISPATCHER_TTL`` seconds."""
    moment = time.time()

    def note() -> None:
        pipe = client().pipeline(transaction=False)
        pipe.zadd(DISPATCHERS, {name: moment})
        pipe.zremrangebyscore(DISPATCHERS, 0, moment - DISPATCHER_TTL)
        pipe.expire(DISPATCHERS, int(DISPATCHER_TTL))
        pipe.execute()

    _mended(note, b"zset", DISPATCHERS)


def live_dispatchers() -> list[str]:
    """The names of the dispatchers that were heard of lately."""
    since = time.time() - DISPATCHER_TTL
    heard = _mended(
        lambda: client().zrangebyscore(DISPATCHERS, since, "+inf"), b"zset", DISPATCHERS
    )
    return [name.decode(errors="replace") for name in cast("list[bytes]", heard)]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a Redis server says of itself."""

    version: str
    used: str
    policy: str


def server_info() -> ServerInfo:
    """Version, memory in use and eviction policy of the Redis server."""
    info = push_client().info()
    version = info.get("valkey_version") or info["redis_version"]
    return ServerInfo(str(version), info["used_memory_human"], info.get("maxmemory_policy", ""))


def serializer() -> str:
    """The serializer that RQ_QUEUES names for our connection; nothing where it names none."""
    return str(django_rq.settings.QUEUES.get(conf.settings().CONNECTION, {}).get("SERIALIZER", ""))


_COMMANDS = "rq:pubsub:"
_STOCK_LIMIT = 500
"""So many stock workers are looked at; a stranger could invent any number."""


class StockWorkers:
    """RQ's own workers on this Redis.

    Each listens to a channel for commands for as long as it lives, which the workers of this
    project do not; its entry in RQ's registry tells its queues. What was read once is remembered
    while the channel lives, because a stock worker does not register again after Redis was wiped.
    """

    def __init__(self) -> None:
        self._queues: dict[str, list[str]] = {}

    def by_queue(self) -> dict[str, int]:
        """How many of them listen to each queue."""
        channels = cast("list[bytes]", client().pubsub_channels(f"{_COMMANDS}*"))[:_STOCK_LIMIT]
        names = {c.decode(errors="replace").removeprefix(_COMMANDS) for c in channels}
        known = {name: self._queues[name] for name in names & set(self._queues)}
        known.update(self._read(sorted(names - set(known))))
        self._queues = known
        return Counter(queue for queues in known.values() for queue in queues)

    def _read(self, names: list[str]) -> dict[str, list[str]]:
        if not names:
            return {}
        pipe = client().pipeline(transaction=False)
        for name in names:
            pipe.hget(f"rq:worker:{name}", "queues")
        found = {}
        for name, raw in zip(names, pipe.execute(raise_on_error=False), strict=True):
            if isinstance(raw, bytes):
                queues = raw[:10_000].decode(errors="replace").split(",")
                found[name] = [queue for queue in queues if not name_problem(queue)]
        return found


class JobsWorker(rq.Worker):
    """The worker as RQ's registry shows it: RQ's name, heartbeat and queues, our way of working.

    RQ's own dequeuing, forking, retrying and maintenance are not used: PostgreSQL decides.
    """

    def __init__(self, name: str, queues: Sequence[str], run: Callable[[], int]) -> None:
        super().__init__(
            list(queues),
            name=name,
            # A client of its own, because RQ changes the timeouts of the one it is given.
            connection=django_rq.get_connection(conf.settings().CONNECTION),
            serializer="rq.serializers.JSONSerializer",
            prepare_for_work=False,
        )
        self.hostname, self.pid, self.ip_address = socket.gethostname(), os.getpid(), "unknown"
        self._run = run

    def work(self, *_: Any, **__: Any) -> bool:
        """Supervises executors until told to stop; true when it ended as it should."""
        return self._run() == 0

    def announce(self) -> None:
        """RQ's registry shows this worker as alive, also after Redis was wiped."""
        if self.connection.exists(self.key):
            self.heartbeat()
        else:
            self.register_birth()  # type: ignore[no-untyped-call]

    def run_maintenance_tasks(self) -> None:
        """Nothing: RQ's clean-up fails and repeats jobs by the clock of Redis."""


def self_test() -> None:
    """Fails at start-up when this RQ lacks a method that the worker overrides or calls."""
    names = ("work", "heartbeat", "register_birth", "register_death", "run_maintenance_tasks")
    missing = [name for name in names if not callable(getattr(rq.Worker, name, None))]
    if missing:
        raise RuntimeError(f"rq {version.VERSION} has no Worker.{', Worker.'.join(missing)}")
