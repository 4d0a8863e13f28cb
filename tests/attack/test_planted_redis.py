"""Whoever writes into Redis makes jobs late, and runs nothing in any process that reads it."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import redis

from tests.attack import audit
from tests.integration.fleet import Fleet
from tests.integration.realtime.site import Site
from tests.wait import wait_until

pytestmark = pytest.mark.slow
UNPICKLE = "import os, pickle; pickle.loads(bytes.fromhex(os.environ['PICKLE']))"


class Bomb:
    """Touches the trap when it is unpickled."""

    def __init__(self, trap: Path) -> None:
        self._command = f"touch {trap}"

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self._command,)


class Scene:
    """A web server, a dispatcher and a worker that note what they unpickle."""

    def __init__(self, its: Fleet, folder: Path) -> None:
        self.fleet, self.trap, self.noted = its, folder / "sprung", folder / "noted"
        self.env = {audit.FILE: str(self.noted), "FLEET_CACHE": its.valkey.url, "HTTPS": "off"}
        self.bomb = pickle.dumps(Bomb(self.trap))

    def start(self) -> None:
        self.dispatcher = self.fleet.dispatcher(env=self.env)
        self.worker = self.fleet.worker("--queues=default", env=self.env)
        self.site = Watched(self.fleet, self.env)
        _, self.cookie = self.site.visitor("staff")

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, timeout=30)

    def stream(self) -> AbstractContextManager[httpx.Response]:
        """A listener, for whom the web server waits for the bell in Redis."""
        address = f"{self.url}/api/v1/events/stream"
        return httpx.stream("GET", address, headers={"Cookie": self.cookie}, timeout=30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.site.port}"

    def use(self) -> None:
        """Everything is asked for what it reads from Redis."""
        assert self.get("/api/v1/health/ready").status_code in (200, 503)
        assert self.get("/api/v1/me", Cookie=self.cookie).status_code == 200
        assert self.get("/admin/", Cookie=self.cookie).status_code == 200
        wrong = self.get("/api/v1/jobs", Authorization="Bearer jd_live_wrong")
        assert wrong.status_code in (401, 429)
        with self.stream() as events:
            assert events.status_code == 200
        job = self.fleet.enqueue("test.noop")
        self.fleet.await_state(job, "succeeded")
        late = self.fleet.enqueue("test.noop", delay=0.3)
        self.fleet.await_state(late, "succeeded")
        doctor = self.fleet.manage("doctor", "jobs", "doctor", env=self.env)
        assert doctor.ended(60) in (0, 1), doctor.logged()

    def stands(self) -> None:
        """Nothing was unpickled, nothing ran, and nobody has died of it."""
        assert not self.noted.exists(), self.noted.read_text()
        assert not self.trap.exists()
        assert self.worker.alive and self.dispatcher.alive and self.site.program.alive


class Watched(Site):
    """A web server that notes what it unpickles."""

    def __init__(self, its: Fleet, env: dict[str, str]) -> None:
        self.env = env
        super().__init__(its)

    def start(self) -> Any:
        self.program = self.fleet.manage("web", "jobs", "web", str(self.port), env=self.env)
        wait_until(self._answers, 30, message="the server answers")
        return self.program


@pytest.fixture
def scene(fleet: Fleet, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(fleet, tmp_path)
    made.start()
    yield made
    made.stands()


WRITERS: dict[str, Callable[[Any, bytes | str, bytes], Any]] = {
    "text": lambda r, key, value: r.set(key, value),
    "list": lambda r, key, value: r.rpush(key, value),
    "hash": lambda r, key, value: r.hset(
        key, mapping=dict.fromkeys(("data", "queues", "meta", "result", value), value)
    ),
    "zset": lambda r, key, value: r.zadd(key, {value: time.time()}),
    "set": lambda r, key, value: r.sadd(key, value),
}


def counters(ours: str) -> list[str]:
    """Where the API counts, and where Django's cache would."""
    found = []
    for name, ident in (("refused", "from:127.0.0.1"), ("read", "who:root")):
        digest = hashlib.sha256(ident.encode()).hexdigest()[:32]
        for minute in range(int(time.time()) // 60, int(time.time()) // 60 + 3):
            found += [f"{ours}:count:{name}:{digest}:{minute}"]
            found += [f":1:jobs:api:{name}:{digest}:{minute}"]
    return found


@pytest.mark.timeout(400)
def test_pickles_at_every_key_are_never_opened(scene: Scene) -> None:
    for name, write in WRITERS.items():
        print(f"planted as {name}")  # noqa: T201 - shown on failure
        plant(scene, write)
        scene.stands()


def plant(scene: Scene, write: Callable[[Any, bytes | str, bytes], Any]) -> None:
    """Put a bomb at every key, in a value of one type, and use everything."""
    redis_, ours = scene.fleet.redis, scene.fleet.key()
    scene.use()  # by now every key is there that anybody reads
    keys: list[Any] = [*redis_.scan_iter("*"), *counters(ours), "rq:workers", "rq:queues"]
    keys += [f"{ours}:{what}:default" for what in ("queue", "seq", "open")]
    keys += [f"{ours}:nudge", f"{ours}:dispatchers", f"rq:worker:{scene.worker.name}"]
    with scene.stream():
        for key in keys:
            planting = redis_.pipeline()
            planting.delete(key)
            write(planting, key, scene.bomb)
            planting.execute()
        wait_until(lambda: redis_.publish("jobs:feed", scene.bomb), message="the server listens")
        redis_.publish(f"rq:pubsub:{scene.worker.name}", scene.bomb)
        scene.use()


def test_jobs_and_callbacks_are_never_called(scene: Scene) -> None:
    """Calls as RQ stores them, for ids of ours and for others, in our lists and in RQ's."""
    redis_ = scene.fleet.redis
    touch = f"touch {scene.trap}"
    names = ("success_callback_name", "failure_callback_name", "stopped_callback_name")
    hashes: list[dict[Any, Any]] = [
        {"data": json.dumps(["os.system", None, [touch], {}])},
        {"data": scene.bomb, "meta": scene.bomb, "result": scene.bomb},
        {"data": json.dumps(["os.getcwd", None, [], {}]), **dict.fromkeys(names, "os.system")},
    ]
    waiting = scene.fleet.enqueue_all([("test.noop", {}, {"delay": 1.0})] * 3)
    for job_id in (*waiting, uuid4(), uuid4()):
        for planted in hashes:
            redis_.hset(f"rq:job:{job_id}", mapping={**planted, "origin": "default"})
            for key in (scene.fleet.key("queue", "default"), "rq:queue:default"):
                redis_.rpush(key, str(job_id))
                redis_.rpush(key, scene.bomb)
    for job in waiting:
        scene.fleet.await_state(job, "succeeded")
    scene.use()
    wait_until(lambda: redis_.llen(scene.fleet.key("queue", "default")) == 0)


def test_a_process_that_unpickles_is_noticed(fleet: Fleet, tmp_path: Path) -> None:
    scene = Scene(fleet, tmp_path)
    env = {**scene.env, "PICKLE": scene.bomb.hex()}
    program = fleet.manage("opener", "shell", "--no-imports", "-c", UNPICKLE, env=env)
    assert program.ended(60) == 1
    assert "('posix', 'system')" in scene.noted.read_text()
    assert not scene.trap.exists()


READ = """
from django.core.cache import cache
assert cache.get("k") is None and not cache.has_key("k") and cache.get_many(["k"]) == {}
assert cache.get_or_set("k", [1]) == [1] and cache.get("k") == [1]
print("a miss")
"""


@pytest.mark.parametrize("kind", ["text", "list"])
def test_the_cache_of_the_project_opens_no_pickle(fleet: Fleet, tmp_path: Path, kind: str) -> None:
    scene = Scene(fleet, tmp_path)
    env = {name: value for name, value in scene.env.items() if name != "FLEET_CACHE"}
    WRITERS[kind](fleet.redis, "jobdesk:1:k", scene.bomb)
    program = fleet.manage("reader", "shell", "--no-imports", "-c", READ, env=env)
    assert program.ended(60) == 0 and "a miss" in program.logged(), program.logged()
    assert not scene.noted.exists() and not scene.trap.exists()


def test_no_key_is_of_any_use_to_a_worker_of_rq(scene: Scene) -> None:
    """What we write are ids and numbers: no call, no hash of a job, no list that RQ knows."""
    scene.use()
    redis_: redis.Redis = scene.fleet.redis
    assert not list(redis_.scan_iter("rq:job:*")) + list(redis_.scan_iter("rq:queue*"))
