"""Pauses and retention with real dispatchers and workers."""

from __future__ import annotations

import pytest

from tests.integration.fleet import Fleet
from tests.wait import wait_until


def command(fleet: Fleet, *arguments: str) -> str:
    program = fleet.manage("command", *arguments)
    assert program.ended(30) == 0
    return program.logged()


@pytest.mark.slow
def test_a_pause_holds_everything_until_it_ends(fleet: Fleet) -> None:
    fleet.dispatcher()
    fleet.dispatcher()
    fleet.worker("--concurrency=1")
    running = fleet.enqueue("test.sleep", {"seconds": 8.0})
    fleet.running(running)
    waiting = fleet.enqueue_all([("test.effect", {}, {})] * 30)
    wait_until(lambda: "queued" in fleet.states())
    paused = command(fleet, "jobs", "pauses", "pause", "queue:default", "--reason=test")
    assert "queue:default" in paused
    later = fleet.enqueue_all([("test.effect", {}, {})] * 10)
    held = {*map(str, waiting), *map(str, later)}
    begun = {str(i) for (i,) in fleet.query("SELECT id FROM jobs_job WHERE attempt > 0")}
    # What was queued is taken back, what runs is not disturbed, and nothing else begins.
    wait_until(lambda: "queued" not in fleet.states())
    fleet.await_state(running, "succeeded")
    wait_until(lambda: not fleet.redis.llen(fleet.key("queue", "default")))
    after = {str(i) for (i,) in fleet.query("SELECT id FROM jobs_job WHERE attempt > 0")}
    assert after == begun
    assert fleet.unfinished() == len(held - begun) >= 10
    fleet.query("UPDATE jobs_pause SET until = clock_timestamp() + interval '1 s'")
    fleet.await_final(20)
    assert fleet.states() == {"succeeded": 41}
    assert not fleet.value("SELECT count(*) FROM jobs_pause")


@pytest.mark.slow
def test_a_paused_key_passes_to_its_waiters_when_it_opens(fleet: Fleet) -> None:
    fleet.dispatcher()
    fleet.worker()
    fleet.query("INSERT INTO jobs_pause (scope, reason, by) VALUES ('key:door', 'test', 'test')")
    wait_until(lambda: fleet.value("SELECT count(*) FROM jobs_closure"))
    fleet.enqueue_all([("test.effect", {}, {"exclusive": "door"})] * 10)
    fleet.enqueue("test.effect")
    wait_until(lambda: fleet.states().get("succeeded") == 1)
    wait_until(lambda: fleet.value("SELECT count(*) FROM jobs_job WHERE wait = 2") == 10)
    fleet.query("DELETE FROM jobs_pause")
    fleet.await_final(20)
    assert fleet.states() == {"succeeded": 11}


@pytest.mark.slow
def test_dispatchers_delete_what_was_kept_long_enough(fleet: Fleet) -> None:
    fleet.worker()
    fleet.dispatcher(jobs={"KEEP_COMPLETED": 0.5})
    fleet.enqueue_all([("test.noop", {}, {})] * 200)
    wait_until(lambda: not fleet.value("SELECT count(*) FROM jobs_job"), 30)
