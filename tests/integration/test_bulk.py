"""Bulk operations that real workers carry out: each item once, whoever is killed meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from tests.integration.fleet import Fleet
from tests.wait import wait_until

ELSEWHERE = "elsewhere"
"""A queue without workers: what is retried or replayed stays where it is."""

_BEGIN = "UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock() WHERE state = 'pending'"
_RUN = """
UPDATE jobs_job SET state = 'running', owner = gen_random_uuid(), token = gen_random_uuid(),
  attempt = 1, started_at = jobs_clock() WHERE state = 'queued'
"""
_FAIL = """
WITH f AS (UPDATE jobs_job SET state = 'failed', owner = NULL, finished_at = jobs_clock(),
  reason = 'unrecoverable' WHERE state = 'running' RETURNING *)
INSERT INTO jobs_deadletter (job_id, kind, queue, attempt, reason, fingerprint, expires_at)
SELECT id, kind, queue, 1, reason, 'same', jobs_clock() + interval '30 d' FROM f
"""


def dead(fleet: Fleet, count: int) -> None:
    """So many jobs have failed, and wait for a decision."""
    for _ in range(0, count, 1000):
        fleet.enqueue_all([("test.noop", {}, {"queue": ELSEWHERE})] * min(count, 1000))
    for statement in (_BEGIN, _RUN, _FAIL, "ANALYZE jobs_job", "ANALYZE jobs_deadletter"):
        fleet.query(statement)


def numbers(fleet: Fleet, bulk: UUID) -> dict[str, Any]:
    names = ("state", "total", "done", "skipped", "failed")
    [row] = fleet.query(f"SELECT {', '.join(names)} FROM jobs_bulk WHERE id = %s", [bulk])  # noqa: S608
    return dict(zip(names, row, strict=True))


def has_done(fleet: Fleet, bulk: UUID, more_than: int) -> bool:
    return bool(numbers(fleet, bulk)["done"] > more_than)


def items(fleet: Fleet) -> dict[str, int]:
    return dict(fleet.query("SELECT state, count(*)::int FROM jobs_bulkitem GROUP BY state"))


@pytest.fixture
def hesitating(fleet: Fleet) -> Iterator[None]:
    """Between the act and the writing down of what became of it, there is time to die."""
    fleet.query(
        "CREATE FUNCTION hesitate() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END$$"
    )
    fleet.query(
        "CREATE TRIGGER hesitate BEFORE UPDATE ON jobs_bulkitem EXECUTE FUNCTION hesitate()"
    )
    yield
    fleet.query("DROP TRIGGER hesitate ON jobs_bulkitem")
    fleet.query("DROP FUNCTION hesitate()")


def hesitates(fleet: Fleet) -> bool:
    """Whether jobs are acted upon, and it is not written down yet."""
    return bool(fleet.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))


def kill_an_executor(fleet: Fleet) -> None:
    """Whoever carries the operation out is gone, without a word."""
    [pid] = wait_until(
        lambda: [
            pid
            for (pid,) in fleet.query(
                "SELECT l.pid FROM jobs_job j JOIN jobs_lease l ON l.owner = j.owner "
                "WHERE j.kind = 'jobs.bulk' AND j.state = 'running' AND l.dead_at IS NULL"
            )
        ],
        20,
        0.002,
        message="an executor carries the operation on",
    )
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.slow
@pytest.mark.usefixtures("hesitating")
def test_each_item_is_done_once_whoever_is_killed(fleet: Fleet) -> None:
    count, kills = 6000, 4
    dead(fleet, count)
    fleet.dispatcher()
    fleet.worker()
    bulk = fleet.bulk("replay_letter", f"state:failed queue:{ELSEWHERE}")
    for turn in range(kills):
        least = turn * count // kills
        wait_until(partial(has_done, fleet, bulk, least), 30, 0.002, message="it goes on")
        wait_until(partial(hesitates, fleet), 30, 0.002, message="it has acted")
        kill_an_executor(fleet)
    wait_until(lambda: numbers(fleet, bulk)["state"] == "done", 60, 0.05, message="it is over")
    assert numbers(fleet, bulk) == {
        "state": "done", "total": count, "done": count, "skipped": 0, "failed": 0,
    }  # fmt: skip
    assert items(fleet) == {"done": count}
    assert fleet.query(
        "SELECT count(*), count(DISTINCT replay_of) FROM jobs_job WHERE replay_of IS NOT NULL"
    ) == [(count, count)]
    assert fleet.query("SELECT state, count(*) FROM jobs_deadletter GROUP BY 1") == [
        ("replayed", count)
    ]
    assert fleet.value("SELECT crashes FROM jobs_job WHERE kind = 'jobs.bulk'") >= 2


@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("per_minute", [600, 6000])
def test_ten_thousand_are_replayed_at_their_pace(fleet: Fleet, per_minute: int) -> None:
    count = 10_000
    dead(fleet, count)
    fleet.dispatcher()
    fleet.worker()
    bulk = fleet.bulk("replay_letter", f"state:failed queue:{ELSEWHERE}", per_minute=per_minute)
    patience = 2 * 60 * count / per_minute
    wait_until(lambda: numbers(fleet, bulk)["done"] >= 9000, patience, 0.25, message="nearly done")
    fleet.abort_bulk(bulk)
    aborted_at = fleet.value("SELECT jobs_clock()")
    wait_until(
        lambda: (
            not fleet.query(
                "SELECT 1 FROM jobs_job WHERE kind = 'jobs.bulk' AND state <> 'succeeded'"
            )
        ),
        20,
        message="its job has ended",
    )
    assert numbers(fleet, bulk)["state"] == "aborted"
    late, done, seconds = fleet.query(
        "SELECT max(decided_at) - %s, count(*), extract(epoch FROM max(decided_at) "
        "- min(decided_at))::float8 FROM jobs_bulkitem WHERE state = 'done'",
        [aborted_at],
    )[0]
    assert late.total_seconds() < 1
    assert done == numbers(fleet, bulk)["done"]
    assert done / seconds * 60 == pytest.approx(per_minute, rel=0.05)


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_hundred_thousand_are_retried_and_each_once(fleet: Fleet) -> None:
    count = 100_000
    dead(fleet, count)
    fleet.dispatcher()
    fleet.worker()
    bulk = fleet.bulk("retry", f"state:failed queue:{ELSEWHERE}")
    wait_until(lambda: numbers(fleet, bulk)["state"] == "done", 240, 0.5, message="it is over")
    assert numbers(fleet, bulk)["done"] == count
    assert items(fleet) == {"done": count}
    assert fleet.query(
        "SELECT state, jsonb_array_length(history), count(*) FROM jobs_job WHERE queue = %s "
        "GROUP BY 1, 2",
        [ELSEWHERE],
    ) == [("pending", 4, count)]
