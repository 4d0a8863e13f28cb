"""Real workers that die or freeze anywhere: the rows of an undisturbed run, and each event once."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
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


@pytest.mark.parametrize(
    ("point", "when"),
    [
        ("trading.clients.coinbase.fills", "before"),
        ("trading.clients.coinbase.fills", "after"),
        ("trading.importing.upsert", "after"),
        ("trading.importing._store", "after"),
        ("trading.importing._finish", "after"),
        ("trading.scoring._load", "after"),
        ("trading.scoring._judge", "after"),
        ("trading.events.reflect", "after"),
        ("trading.scoring._store", "after"),
    ],
)
def test_a_worker_that_dies_anywhere_leaves_the_rows_of_an_undisturbed_run(
    desk: Desk, tmp_path: Path, point: str, when: str
) -> None:
    mark = tmp_path / "mark"
    desk.start(f"{point}|{when}|{mark}")
    user = desk.imported()
    desk.await_scored(user)
    assert mark.exists()
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


@pytest.mark.parametrize(
    ("point", "when"),
    [
        ("digesting._load", "after"),
        ("digesting._figures", "after"),
        ("digesting._snapshot", "after"),
        ("events.digest_ready", "after"),
        ("digesting._store", "after"),
    ],
)
def test_a_worker_that_dies_in_a_digest_leaves_one_digest(
    desk: Desk, tmp_path: Path, point: str, when: str
) -> None:
    mark = tmp_path / "mark"
    desk.start(f"trading.{point}|{when}|{mark}")
    user, job, wanted = desk.stage("digest", desk.venue.market.fills(), PLAN)
    desk.fleet.await_state(job, "succeeded", 60)
    assert mark.exists()
    assert_one_digest(desk, user, wanted)


# ---- freezing


def thaw(desk: Desk, frozen: Program, executor: int, mark: Path) -> None:
    """Let the frozen handler go on while its supervisor sleeps, then everything."""
    mark.with_suffix(".go").touch()
    process = psutil.Process(executor)
    os.kill(executor, signal.SIGCONT)
    ended = mark.with_suffix(".ended")
    wait_until(lambda: ended.exists() or not is_alive(process), 60, 0.05, "the handler has ended")
    frozen.proceed()


@pytest.mark.parametrize("point", ["trading.importing._store", "trading.scoring._store"])
def test_a_worker_that_freezes_beyond_its_lease_adds_nothing_when_it_thaws(
    desk: Desk, tmp_path: Path, point: str
) -> None:
    mark = tmp_path / "mark"
    frozen = desk.start(f"{point}|hold|{mark}")
    [executor] = desk.fleet.executors(frozen)
    user = desk.imported()
    wait_until(mark.exists, 60, 0.05, "the handler is held")
    frozen.pause()
    desk.worker()
    desk.await_scored(user)
    assert_undisturbed(desk, user)
    thaw(desk, frozen, executor, mark)
    assert_undisturbed(desk, user)


def test_a_digest_that_freezes_beyond_its_lease_is_published_once(
    desk: Desk, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    frozen = desk.start(f"trading.digesting._snapshot|hold|{mark}")
    [executor] = desk.fleet.executors(frozen)
    user, job, wanted = desk.stage("digest", desk.venue.market.fills(), PLAN)
    wait_until(mark.exists, 60, 0.05, "the handler is held")
    frozen.pause()
    desk.worker()
    desk.fleet.await_state(job, "succeeded", 60)
    thaw(desk, frozen, executor, mark)
    assert_one_digest(desk, user, wanted)


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
