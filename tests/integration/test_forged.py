"""Redis content written by a stranger: it runs nothing, kills nobody, changes no row."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis

from tests.integration.fleet import Fleet, Program
from tests.wait import wait_until


@dataclass
class Target:
    """A fleet at work, jobs in every state, and a file that only planted code would create."""

    fleet: Fleet
    worker: Program
    dispatcher: Program
    trap: Path
    jobs: dict[str, UUID]
    executors: list[int] = field(init=False)
    rows: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.executors = self.fleet.executors(self.worker)
        self.rows = self.snapshot()

    @property
    def redis(self) -> redis.Redis:
        return self.fleet.redis

    @property
    def inbox(self) -> str:
        return self.fleet.key("queue", "default")

    def snapshot(self) -> list[Any]:
        return self.fleet.query(
            "SELECT j::text FROM jobs_job j WHERE id = ANY(%s) ORDER BY id",
            [list(self.jobs.values())],
        )

    def stands(self) -> None:
        """All that was planted has been passed over, and nothing came of it."""
        marks = [self.fleet.enqueue("test.noop") for _ in range(3)]
        for mark in marks:
            self.fleet.await_state(mark, "succeeded")
        wait_until(lambda: self.redis.type(self.inbox) in (b"none", b"list"))
        wait_until(lambda: self.redis.llen(self.inbox) == 0, message="the list is empty")
        assert not self.trap.exists()
        assert self.worker.alive and self.dispatcher.alive
        assert self.fleet.executors(self.worker) == self.executors
        assert self.snapshot() == self.rows


@pytest.fixture(scope="module")
def scene(servers: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    fleet = servers
    fleet.reset()
    dispatcher, worker = fleet.dispatcher(), fleet.worker("--queues=default")
    jobs = {
        "succeeded": fleet.enqueue("test.noop"),
        "failed": fleet.enqueue("test.fail"),
        "later": fleet.enqueue("test.noop", delay=3600),
        "cancelled": fleet.enqueue("test.noop", delay=3600),
        "elsewhere": fleet.enqueue("test.noop", queue="elsewhere"),
    }
    for name in ("succeeded", "failed"):
        fleet.await_state(jobs[name], name)
    fleet.query(
        "UPDATE jobs_job SET state = 'cancelled', finished_at = jobs_clock() WHERE id = %s",
        [jobs["cancelled"]],
    )
    fleet.query(
        "UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock() WHERE id = %s",
        [jobs["elsewhere"]],
    )
    trap = tmp_path_factory.mktemp("trap") / "sprung"
    yield Target(fleet, worker, dispatcher, trap, jobs)
    print(fleet.log_tails())  # noqa: T201
    fleet.end_programs()
    assert fleet.violations() == []


@pytest.fixture
def target(scene: Target) -> Iterator[Target]:
    """The scene; in the end it stands as it stood, and the queue goes on."""
    yield scene
    scene.stands()


class Bomb:
    """Touches the trap when it is unpickled."""

    def __init__(self, trap: Path) -> None:
        self._command = f"touch {trap}"

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self._command,)


def call(function: str, argument: str) -> str:
    """What RQ's JSON serializer stores for a call of the function."""
    return json.dumps([function, None, [argument], {}])


def hashes(trap: Path) -> dict[str, dict[str, Any]]:
    touch = f"touch {trap}"
    python = f"__import__('os').system({touch!r})"
    pickled = pickle.dumps(Bomb(trap))
    return {
        "function": {"data": call("os.system", touch)},
        "builtin": {"data": call("builtins.eval", python)},
        "pickle": {"data": pickled, "meta": pickled, "result": pickled},
        "callbacks": {
            "data": call("jobs.enqueue", "x"),
            "success_callback_name": "os.system",
            "failure_callback_name": "os.system",
            "stopped_callback_name": "os.system",
        },
        "webhooks": {"data": call("os.getcwd", ""), "webhooks": f'[{{"url": "file://{trap}"}}]'},
        "status": {"data": call("os.system", touch), "status": "nonsense", "created_at": "never"},
    }


@pytest.mark.parametrize("name", hashes(Path()))
def test_hashes_with_code_in_them(target: Target, name: str) -> None:
    planted: dict[Any, Any] = {"origin": "default", "status": "queued", **hashes(target.trap)[name]}
    known = target.jobs["later"]
    for job_id in (known, uuid4()):
        target.redis.hset(f"rq:job:{job_id}", mapping=planted)
        target.redis.rpush(target.inbox, str(job_id))


ILLEGAL_IDS: dict[str, list[bytes | str]] = {
    "empty": ["", " ", "\n"],
    "names": ["os.system", "bad.id", "a:b", "../../etc/passwd", "builtins.eval('1')"],
    "bytes": [b"\xff" * 36, b"\x00" * 36, os.urandom(36)],
    "almost": ["{" + str(uuid4())[:34] + "}", "urn:uuid:" + uuid4().hex[:27], "-" * 36, "g" * 36],
    "huge": [b"x" * 10_000_000],
    "many": ["nonsense"] * 5000,
    "strangers": [str(uuid4()) for _ in range(500)],
    "shouted": [str(uuid4()).upper()],
}


@pytest.mark.parametrize("name", ILLEGAL_IDS)
def test_ids_that_are_none(target: Target, name: str) -> None:
    target.redis.rpush(target.inbox, *ILLEGAL_IDS[name])


@pytest.mark.parametrize("state", ["succeeded", "failed", "later", "cancelled", "elsewhere"])
def test_ids_of_jobs_that_are_not_to_be_had(target: Target, state: str) -> None:
    target.redis.rpush(target.inbox, *[str(target.jobs[state])] * 10)


def test_the_ids_of_jobs_that_wait_in_order_doubled_and_reversed(target: Target) -> None:
    """The same ids once more cost nothing, whichever copy comes first."""
    jobs = target.fleet.enqueue_all([("test.noop", {}, {})] * 50)
    target.redis.lpush(target.inbox, *(str(job) for job in jobs * 3))
    for job in jobs:
        target.fleet.await_state(job, "succeeded")
    attempts = target.fleet.value("SELECT max(attempt) FROM jobs_job WHERE id = ANY(%s)", [jobs])
    assert attempts == 1


WRITERS: dict[str, Callable[[redis.Redis, str], Any]] = {
    "text": lambda r, key: r.set(key, "nonsense"),
    "list": lambda r, key: r.rpush(key, "nonsense"),
    "hash": lambda r, key: r.hset(key, "field", "nonsense"),
    "zset": lambda r, key: r.zadd(key, {"nonsense": 1}),
}
KEYS = [
    "rq:workers",
    "rq:workers:jobs:default",
    "jobs:registry",
    "jobs:epoch",
    "jobs:*:queue:default",
    "jobs:*:seq:default",
    "jobs:*:open:default",
    "jobs:*:nudge",
    "jobs:*:dispatchers",
]
"""With a star for the mark of the database."""


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_another_type(target: Target, key: str) -> None:
    key = key.replace("jobs:*", target.fleet.key())
    for write in WRITERS.values():
        # At once, or the fleet's own key would be there again in between.
        planting = target.redis.pipeline()
        planting.delete(key)
        write(planting, key)
        planting.execute()
        target.fleet.await_state(target.fleet.enqueue("test.noop"), "succeeded")


def test_a_lost_id_is_found_missing_for_all_that(target: Target) -> None:
    target.redis.delete("jobs:epoch")
    target.redis.set("jobs:epoch", "nonsense")
    lost = target.fleet.enqueue("test.noop", delay=3600)
    target.fleet.query(
        "UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock() - interval '10 s', "
        "run_at = jobs_clock(), wait = 0 WHERE id = %s",
        [lost],
    )
    target.fleet.await_state(lost, "succeeded")


@pytest.mark.parametrize("counter", ["9223372036854775807", "-5", "1e300", ""])
def test_counters_out_of_range(target: Target, counter: str) -> None:
    target.redis.set(target.fleet.key("seq", "default"), counter)
    job = target.fleet.enqueue("test.noop", delay=0.1)
    target.fleet.await_state(job, "succeeded")


def test_commands_of_rq(target: Target) -> None:
    name = target.worker.name
    running = target.fleet.enqueue("test.sleep", {"seconds": 0.5})
    target.fleet.running(running)
    for command in ("stop-job", "kill-horse", "shutdown", "os.system"):
        message = json.dumps({"command": command, "job_id": str(running)})
        target.redis.publish(f"rq:pubsub:{name}", message)
    target.fleet.await_state(running, "succeeded")
    assert target.fleet.numbers(running)["attempt"] == 1


def test_invented_workers(target: Target) -> None:
    """A queue is not fed because somebody says that workers listen to it."""
    listener = target.redis.pubsub()  # type: ignore[no-untyped-call]
    queues = ["nonsense", "a b", "x" * 5000, "'; DROP TABLE jobs_job; --"]
    for number, queue in enumerate(queues):
        target.redis.hset(f"rq:worker:fake{number}", "queues", queue)
        listener.subscribe(f"rq:pubsub:fake{number}")
    target.redis.set("rq:worker:fake9", "nonsense")
    listener.subscribe("rq:pubsub:fake9", b"rq:pubsub:\xff")
    # The dispatcher has looked at them once the delay is over.
    job = target.fleet.enqueue("test.noop", delay=1.5)
    target.fleet.await_state(job, "succeeded")
    listener.close()
    assert target.fleet.query("SELECT name FROM jobs_queue") == [("default",)]
