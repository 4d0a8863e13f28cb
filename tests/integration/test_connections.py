"""Too few database connections delay work; none is lost, and nobody has to step in."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration import faults
from tests.integration.fleet import Fleet, Wanted
from tests.wait import wait_until

CALM = {"LEASE": 15.0, "HEARTBEAT": 5.0}
EACH = 15


def mix(folder: Path, **options: Any) -> list[Wanted]:
    """Jobs that need a connection all the time, now and then, and not at all."""
    wanted: list[Wanted] = [("test.effect", {}, {}), ("test.noop", {}, {})] * EACH
    for n in range(EACH):
        wanted.append(("test.noop", {}, {"exclusive": f"key{n % 3}"}))
        wanted.append(("test.outside", {"log": str(folder / f"{n}")}, {}))
    return [(kind, payload, {**given, **options}) for kind, payload, given in wanted]


def assert_all_done_once(fleet: Fleet, jobs: int, folder: Path) -> None:
    assert fleet.states() == {"succeeded": jobs}
    assert fleet.value("SELECT sum(crashes) + sum(failures) FROM jobs_job") == 0
    written = [(folder / f"{n}").read_text().split() for n in range(EACH)]
    assert all(len(lines) == 1 for lines in written), "each effect happened once"


def test_a_small_pool_is_shared(fleet: Fleet, tmp_path: Path) -> None:
    pool = {"min_size": 1, "max_size": 2, "timeout": 5}
    fleet.dispatcher(jobs=CALM)
    worker = fleet.worker("--concurrency=8", jobs=CALM, env={"FLEET_POOL": json.dumps(pool)})
    wanted = mix(tmp_path)
    fleet.enqueue_all(wanted)
    fleet.await_final(60)
    assert_all_done_once(fleet, len(wanted), tmp_path)
    assert "they need 10" in worker.logged()
    assert "killing" not in worker.logged()


@pytest.mark.slow
def test_handlers_that_find_no_connection_wait_for_one(fleet: Fleet, tmp_path: Path) -> None:
    """The worker can claim and settle; what its handlers need comes later."""
    fleet.dispatcher(jobs=CALM)
    worker = fleet.worker("--concurrency=8", jobs=CALM)
    first = fleet.enqueue("test.noop")
    fleet.await_state(first, "succeeded")
    wanted = mix(tmp_path, delay=3600)
    fleet.enqueue_all(wanted)
    with faults.used_up(fleet, cut=False):
        fleet.query("UPDATE jobs_job SET run_at = jobs_clock(), wait = 0 WHERE state = 'pending'")
        until = time.monotonic() + 15
        wait_until(lambda: time.monotonic() > until)
        assert fleet.value("SELECT count(*) FROM effects") < EACH, "it bites"
    fleet.await_final(60)
    assert_all_done_once(fleet, 1 + len(wanted), tmp_path)
    assert worker.alive and "killing" not in worker.logged()
    assert worker.logged().count("waits for the database") < 10, "one line per cause"


def test_a_worker_born_without_connections_begins_when_they_come(
    fleet: Fleet, tmp_path: Path
) -> None:
    wanted = mix(tmp_path)
    fleet.enqueue_all(wanted)
    with faults.used_up(fleet):
        fleet.dispatcher(jobs=CALM)
        worker = fleet.worker("--concurrency=8", jobs=CALM, unready=True)
        wait_until(lambda: "needs 10 connections" in worker.logged(), message="it says how many")
    fleet.await_final(30)
    assert_all_done_once(fleet, len(wanted), tmp_path)
