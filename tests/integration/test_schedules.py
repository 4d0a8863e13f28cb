"""Schedules, served by dispatchers that are processes: one of them dies at its work."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from tests.integration.fleet import Fleet
from tests.wait import wait_until

MISSED = 500


def a_backlog(fleet: Fleet) -> None:
    """A schedule of every minute, of which nobody has taken care for 500 minutes."""
    fleet.query(
        "INSERT INTO jobs_schedule (name, kind, payload, options, interval, missed, created_at, "
        "next_slot) SELECT 'backlog', 'test.noop', '{}', '{}', 60, 'all', start, "
        "start + interval '1 min' FROM (SELECT jobs_clock() - interval '500 min 5 s') s(start)"
    )


def made(fleet: Fleet) -> int:
    count = fleet.value("SELECT count(*) FROM jobs_job WHERE slot_at IS NOT NULL")
    return int(count)


def test_a_dispatcher_killed_at_its_slots_leaves_none_out_and_doubles_none(fleet: Fleet) -> None:
    a_backlog(fleet)
    first, *_ = [fleet.dispatcher() for _ in range(3)]
    fleet.worker()
    wait_until(lambda: made(fleet), interval=0.005, message="slots become jobs")
    first.kill()
    wait_until(lambda: made(fleet) >= MISSED, 20, message="all slots have become jobs")
    fleet.await_final(20)
    slots = [slot for (slot,) in fleet.query("SELECT slot_at FROM jobs_job ORDER BY slot_at")]
    assert {after - before for before, after in pairwise(slots)} == {timedelta(minutes=1)}
    assert fleet.states() == {"succeeded": len(slots)}
    fleet.query("UPDATE jobs_schedule SET enabled = false")
    [(last, error)] = fleet.query("SELECT last_slot, error FROM jobs_schedule")
    assert (last, error) == (slots[-1], "")
