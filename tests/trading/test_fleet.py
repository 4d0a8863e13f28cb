"""Real workers that die or freeze anywhere: the rows of an undisturbed run, and each event once."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import psutil
import pytest

from config.standins.trading import Coinbase
from config.standins.trading.market import PLAN
from tests.integration.conftest import fleet, servers
from tests.integration.fleet import Fleet, Program, is_alive
from tests.trading.desk import DIGESTS, LABELS, PERCENTS, READY, RUN, TOLD, Desk
from tests.wait import wait_until

__all__ = ["fleet", "servers"]  # fixtures
pytestmark = pytest.mark.slow


@pytest.fixture
def desk(fleet: Fleet, tmp_path: Path) -> Iterator[Desk]:
    venue = Coinbase().start()
    venue.page = 5
    yield Desk(fleet, venue, tmp_path)
    fleet.end_programs()
    venue.stop()


def assert_undisturbed(desk: Desk, user: int) -> None:
    """An import of three pages, the labels of the plan, and each event once and in order."""
    tenant = f"user:{user}"
    assert tuple(desk.rows(LABELS, user)) == PLAN
    assert desk.rows(RUN, user) == [("DONE", 3, 12, 12, 0)]
    wait_until(lambda: len(desk.rows(TOLD, tenant)) >= 12, 30, 0.1, "every label is published")
    assert set(Counter(desk.rows(TOLD, tenant)).values()) == {1}
    percents = desk.rows(PERCENTS, tenant)
    assert len(percents) == 3 and percents == sorted(percents) and percents[-1] == 100


class Points:
    """Functions at which the only executor dies, one at a time, when they are armed."""

    def __init__(self, folder: Path, points: dict[str, str]) -> None:
        self._marks = {
            point: (when, folder / f"mark-{number}")
            for number, (point, when) in enumerate(points.items())
        }
        for _, mark in self._marks.values():
            mark.touch()  # it has died there already, as far as the process knows

    @property
    def crash(self) -> str:
        return ",".join(
            f"trading.{point.removesuffix('!')}|{when}|{mark}"
            for point, (when, mark) in self._marks.items()
        )

    def arm(self, *points: str) -> None:
        for point in points:
            self._marks[point][1].unlink()

    def assert_died(self, *points: str) -> None:
        assert [point for point in points if not self._marks[point][1].exists()] == []


IMPORTING = {
    "clients.coinbase.fills": "before", "clients.coinbase.fills!": "after",
    "importing.upsert": "after", "importing._store": "after", "importing._finish": "after",
}  # fmt: skip
SCORING = dict.fromkeys(
    ("scoring._load", "scoring._judge", "events.reflect", "scoring._store"), "after"
)
DIGESTING = dict.fromkeys(
    (
        "digesting._load", "digesting._figures", "digesting._snapshot", "events.digest_ready",
        "digesting._store",
    ), "after",
)  # fmt: skip


def test_a_worker_that_dies_anywhere_leaves_the_rows_of_an_undisturbed_run(
    desk: Desk, tmp_path: Path
) -> None:
    points = Points(tmp_path, IMPORTING | SCORING)
    desk.start(points.crash)
    for pair in zip_longest(IMPORTING, SCORING):
        armed = [point for point in pair if point]
        points.arm(*armed)
        user = desk.imported()
        desk.await_scored(user)
        points.assert_died(*armed)
        assert_undisturbed(desk, user)


def assert_one_digest(desk: Desk, user: int, wanted: object) -> None:
    """One row, its event once, and a snapshot that says the same."""
    [(sha256, payload)] = desk.rows(DIGESTS, user)
    body = json.dumps(wanted, sort_keys=True, separators=(",", ":")).encode()
    assert (json.loads(payload), sha256) == (wanted, hashlib.sha256(body).hexdigest())
    tenant = f"user:{user}"
    wait_until(lambda: desk.rows(READY, tenant), 30, 0.1, "the digest is published")
    assert len(desk.rows(READY, tenant)) == 1
    [key] = desk.rows("SELECT storage_key FROM trading_digest WHERE user_id = %s", user)
    assert (desk.blobs / key).read_bytes() == body


def test_a_worker_that_dies_in_a_digest_leaves_one_digest(desk: Desk, tmp_path: Path) -> None:
    points = Points(tmp_path, DIGESTING)
    desk.start(points.crash)
    for point in DIGESTING:
        points.arm(point)
        user, job, wanted = desk.stage("digest", desk.venue.market.fills(), PLAN)
        desk.fleet.await_state(job, "succeeded", 60)
        points.assert_died(point)
        assert_one_digest(desk, user, wanted)


def test_a_digest_that_dies_after_its_snapshot_leaves_no_file_of_erased_data(
    desk: Desk, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    worker = desk.start(f"trading.digesting._store|hold|{mark}")
    user, digest, _ = desk.stage("digest", desk.venue.market.fills(), PLAN)
    wait_until(mark.exists, 60, 0.05, "the snapshot is written")
    folder = desk.blobs / "digests" / str(user)
    assert len(list(folder.iterdir())) == 1
    job = desk.stage("erase", user)
    [executor] = desk.fleet.executors(worker)
    os.kill(executor, signal.SIGKILL)
    desk.fleet.await_state(job, "succeeded", 60)
    assert desk.fleet.state(digest) == "cancelled"
    assert list(folder.iterdir()) == [] and desk.rows(DIGESTS, user) == []


# ---- freezing


class Frozen:
    """A worker that holds its handlers at some functions, and freezes with them."""

    def __init__(self, folder: Path, name: str, *points: str) -> None:
        self._marks = {point: folder / f"{name}-{number}" for number, point in enumerate(points)}
        self.crash = ",".join(f"trading.{at}|hold|{mark}" for at, mark in self._marks.items())

    def freeze(self, desk: Desk, worker: Program) -> None:
        """Stop the worker once every handler is held."""
        [self._executor] = desk.fleet.executors(worker)
        for point, mark in self._marks.items():
            wait_until(mark.exists, 60, 0.05, f"{point} is held")
        self._worker = worker
        worker.pause()

    def thaw(self) -> None:
        """Let the frozen handlers go on while their supervisor sleeps, then everything."""
        for mark in self._marks.values():
            mark.with_suffix(".go").touch()
        process = psutil.Process(self._executor)
        os.kill(self._executor, signal.SIGCONT)
        ended = [mark.with_suffix(".ended") for mark in self._marks.values()]
        wait_until(
            lambda: all(mark.exists() for mark in ended) or not is_alive(process),
            60, 0.05, "the handlers have ended",
        )  # fmt: skip
        self._worker.proceed()


def test_workers_that_freeze_beyond_their_lease_add_nothing_when_they_thaw(
    desk: Desk, tmp_path: Path
) -> None:
    """The first holds a page and a digest; the one that takes over holds a batch of labels."""
    first = Frozen(tmp_path, "first", "importing._store", "digesting._snapshot")
    second = Frozen(tmp_path, "second", "scoring._store")
    worker = desk.start(first.crash)
    user = desk.imported()
    reader, digest, wanted = desk.stage("digest", desk.venue.market.fills(), PLAN)
    first.freeze(desk, worker)
    second.freeze(desk, desk.worker(second.crash))
    desk.worker()
    desk.await_scored(user)
    desk.fleet.await_state(digest, "succeeded", 60)

    def assert_all() -> None:
        assert_undisturbed(desk, user)
        assert_one_digest(desk, reader, wanted)

    assert_all()
    first.thaw()
    second.thaw()
    assert_all()


# ---- servers that go away


def test_a_wiped_redis_repeats_nothing(desk: Desk, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    desk.start(f"trading.importing._store|hold|{mark}")
    user = desk.imported()
    wait_until(mark.exists, 60, 0.05, "a page is fetched")
    desk.fleet.redis.flushall()
    assert desk.stage("again", user) == desk.job, "the same import is not enqueued twice"
    mark.with_suffix(".go").touch()
    desk.await_scored(user)
    desk.fleet.await_final(60)
    assert_undisturbed(desk, user)
    kinds = "SELECT kind, count(*) FROM jobs_job WHERE tenant = %s GROUP BY 1 ORDER BY 1"
    assert desk.rows(kinds, f"user:{user}") == [("import.trades", 1), ("score.bias", 1)]


def test_a_dead_ai_service_costs_a_job_three_attempts_and_a_retry_labels_all(desk: Desk) -> None:
    service = desk.web()
    service.program.kill()
    desk.start()
    user = desk.imported()
    tenant = f"user:{user}"
    failed = (
        "SELECT failures FROM jobs_job "
        "WHERE tenant = %s AND kind = 'score.bias' AND state = 'failed'"
    )
    wait_until(lambda: desk.rows(failed, tenant) == [3], 60, 0.1, "three attempts have failed")
    dead = "SELECT count(*) FROM jobs_deadletter WHERE kind = 'score.bias'"
    assert desk.rows(dead) == [1]
    assert desk.rows(LABELS, user) == []
    service.start()
    desk.stage("retry", user)
    desk.await_scored(user)
    assert_undisturbed(desk, user)
    sources = "SELECT DISTINCT source FROM trading_tag WHERE user_id = %s"
    assert desk.rows(sources, user) == ["ai"]
