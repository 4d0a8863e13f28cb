"""Others on the same Redis database lose nothing to us: RQ's own jobs, and another project's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
import redis
import rq
from rq.job import Job

from tests.integration.fleet import Fleet, Program
from tests.wait import wait_until

LEGACY = {"FLEET_LEGACY": "1"}
"""A project that has django-rq installed, and jobs of its own."""


def stock(fleet: Fleet, *arguments: str) -> Program:
    """RQ's own worker, as django-rq starts it."""
    return fleet.manage(f"rq{uuid4().hex[:6]}", "rqworker", "default", *arguments, env=LEGACY)


def theirs(redis_: redis.Redis) -> dict[bytes, Any]:
    """Everything that RQ has in Redis, but for its registry of workers."""
    keys = cast("list[bytes]", redis_.keys("rq:*"))
    return {key: redis_.dump(key) for key in keys if not key.startswith(b"rq:worker")}


@pytest.fixture
def legacy(fleet: Fleet, tmp_path: Path) -> list[Job]:
    """Twenty jobs, which are pickles, in a queue of RQ with the name of ours."""
    queue = rq.Queue("default", connection=fleet.redis)
    task = "tests.integration.legacy.leave"
    return [queue.enqueue(task, str(tmp_path), str(n)) for n in range(20)]


def busy(fleet: Fleet) -> None:
    """Twenty of our own jobs come and go, and one is found missing meanwhile."""
    jobs = fleet.enqueue_all([("test.noop", {}, {})] * 19)
    lost = fleet.enqueue("test.noop", delay=3600)
    fleet.query(
        "UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock() - interval '10 s', "
        "run_at = jobs_clock(), wait = 0 WHERE id = %s",
        [lost],
    )
    for job in (*jobs, lost):
        fleet.await_state(job, "succeeded")


def test_jobs_of_another_library_survive(fleet: Fleet, legacy: list[Job], tmp_path: Path) -> None:
    # A poison of theirs as well: an id without a hash, and hashes that no list names.
    fleet.redis.rpush("rq:queue:default", str(uuid4()))
    fleet.redis.hset(f"rq:job:{uuid4()}", "data", b"\x80")
    fleet.redis.rpush("rq:queue:default:intermediate", str(uuid4()))
    before = theirs(fleet.redis)
    fleet.dispatcher()
    fleet.worker("--queues=default", "--concurrency=2")
    busy(fleet)
    assert theirs(fleet.redis) == before
    worker = stock(fleet, "--burst")
    assert worker.ended(60) == 0, worker.logged()
    assert {path.name for path in tmp_path.iterdir()} == {str(n) for n in range(20)}
    assert {job.get_status() for job in legacy} == {"finished"}


@pytest.mark.slow
def test_a_stock_worker_goes_on_beside_ours(fleet: Fleet, tmp_path: Path) -> None:
    """Each runs its own jobs, also those that are enqueued while both are at work."""
    fleet.dispatcher()
    fleet.worker("--queues=default")
    worker = stock(fleet)
    queue = rq.Queue("default", connection=fleet.redis)
    for n in range(20):
        queue.enqueue("tests.integration.legacy.leave", str(tmp_path), str(n))
        fleet.enqueue("test.noop")
    failed = queue.enqueue("tests.integration.legacy.fail", str(tmp_path))
    wait_until(lambda: len(list(tmp_path.iterdir())) == 20, 60)
    fleet.await_final(60)
    assert fleet.states() == {"succeeded": 20}
    wait_until(lambda: failed.get_status(refresh=True) == "failed", 60)
    assert failed.id in queue.failed_job_registry
    assert worker.alive
    assert "again to" not in "".join(program.logged() for program in fleet.programs)


class Neighbour(Fleet):
    """Another project, with a database of its own on the same servers."""

    def __init__(self, first: Fleet) -> None:
        first.query("CREATE DATABASE neighbour")
        assert first._forks is not None, "the first one runs already"
        vars(self).update(vars(first))
        url, direct = (
            urlsplit(each)._replace(path="/neighbour").geturl()
            for each in (first.postgres.url, first.postgres.direct_url)
        )
        self.postgres = SimpleNamespace(url=url, direct_url=direct, alive=True)  # type: ignore[assignment]
        self.programs, self._count = [], first._count + 1000
        self._client = self._connection = None
        self._forks = (first._forks[1], first._forks[1])
        assert self.manage("migrate", "migrate", "--verbosity=0").ended(60) == 0


@pytest.fixture
def neighbour(fleet: Fleet) -> Iterator[Neighbour]:
    fleet.dispatcher()
    fleet.worker("--queues=default")
    other = Neighbour(fleet)
    yield other
    print(other.log_tails())  # noqa: T201
    other.end_programs()
    other._end_client()
    other.forget_connection()
    fleet.query("DROP DATABASE neighbour WITH (FORCE)")


@pytest.mark.slow
def test_two_projects_do_not_take_each_others_ids(fleet: Fleet, neighbour: Neighbour) -> None:
    neighbour.dispatcher()
    neighbour.worker("--queues=default")
    assert fleet.key() != neighbour.key()
    jobs: list[tuple[Fleet, UUID]] = []
    for _ in range(25):
        jobs += [(each, each.enqueue("test.noop")) for each in (fleet, neighbour)]
    for each, job in jobs:
        each.await_state(job, "succeeded")
    for each in (fleet, neighbour):
        assert each.states() == {"succeeded": 25}
        # An id that somebody else had taken would have been pushed again two seconds later.
        assert "again to" not in "".join(program.logged() for program in each.programs)
