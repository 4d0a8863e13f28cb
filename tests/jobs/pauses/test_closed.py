"""Until when a scope is closed: ``jobs.flow.closed``, also of moments to come."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from jobs import flow
from jobs.errors import Changed, InvalidOption, NotAllowed
from jobs.models import Audit
from tests.jobs.factories import a_job, row
from tests.jobs.pauses.closing import NOON, WHO, SetClock

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def noon(set_clock: SetClock) -> None:
    set_clock(NOON)


def test_what_is_open_has_no_end() -> None:
    flow.pause("queue:other", **WHO)
    assert flow.closed("queue:default") is None
    assert flow.closed(["queue:default", "tenant:acme"], NOON + HOUR) is None
    assert flow.closed([]) is None


def test_a_pause_is_closed_until_its_end_or_for_ever() -> None:
    flow.pause("tenant:acme", until=NOON + 2 * HOUR, **WHO)
    assert flow.closed(["queue:default", "tenant:acme"]) == NOON + 2 * HOUR
    assert flow.closed("tenant:acme", NOON + HOUR) == NOON + 2 * HOUR
    assert flow.closed("tenant:acme", NOON + 2 * HOUR) is None
    flow.pause("tenant:acme", **WHO)
    assert flow.closed("tenant:acme", NOON + 900 * HOUR) == flow.NEVER
    flow.resume("tenant:acme", **WHO)
    assert flow.closed("tenant:acme") is None


def test_a_window_is_looked_up_in_the_calendar() -> None:
    flow.create_blackout("queue:default", time(22), time(6), days=[4], **WHO)
    friday = NOON + timedelta(days=4)
    assert flow.closed("queue:default", friday) is None
    assert flow.closed("queue:default", friday + 10 * HOUR) == friday + 18 * HOUR
    assert flow.closed("queue:default", friday + timedelta(days=7, hours=17)) == friday + timedelta(
        days=7, hours=18
    )
    assert flow.closed("queue:default", friday + 18 * HOUR) is None


def test_closures_that_follow_each_other_are_followed_to_their_end() -> None:
    flow.create_blackout("queue:default", time(13), time(15), **WHO)
    flow.create_blackout("limit_key:acme", time(14, 59), time(16), **WHO)
    flow.pause("kind:test.noop", until=NOON + HOUR, **WHO)
    scopes = ["queue:default", "kind:test.noop", "limit_key:acme"]
    assert flow.closed(scopes) == NOON + 4 * HOUR
    assert flow.closed(scopes[:2]) == NOON + 3 * HOUR
    assert flow.closed(scopes[2]) is None


def test_windows_that_leave_no_gap_never_open() -> None:
    flow.create_blackout("queue:default", time(0), time(12), **WHO)
    flow.create_blackout("queue:default", time(12), time(0), **WHO)
    until = flow.closed("queue:default")
    assert until is not None
    assert until == flow.NEVER


@pytest.mark.parametrize("scopes", ["default", ["kind:unknown"], ["queue:default", 7], "key:"])
def test_a_wrong_scope_is_named(scopes: Any) -> None:
    with pytest.raises(InvalidOption, match="scope"):
        flow.closed(scopes)


@pytest.mark.parametrize("moment", [datetime(2040, 1, 1), "now", 7])
def test_a_wrong_moment_is_named(moment: Any) -> None:
    with pytest.raises(InvalidOption, match="moment"):
        flow.closed("queue:default", moment)


def test_a_waiting_job_is_rescheduled_once_it_is_known_when() -> None:
    job = a_job()
    version = flow.reschedule(job, NOON + HOUR, by="ada", reason="as they asked")
    assert row(job).run_at == NOON + HOUR
    flow.reschedule(job, NOON + 2 * HOUR, by="ada", version=version)
    with pytest.raises(Changed):
        flow.reschedule(job, NOON + 3 * HOUR, by="ada", version=version)
    flow.run_now(job, by="ada")
    assert row(job).run_at == datetime(2040, 1, 2, 12, tzinfo=UTC)
    assert {a.action for a in Audit.objects.filter(outcome="done")} == {"job.edit", "job.run_now"}
    with pytest.raises(NotAllowed):
        flow.reschedule(a_job("running"), NOON + HOUR, by="ada")


def test_windows_are_listed_between_two_moments() -> None:
    flow.create_blackout("queue:default", time(22), time(6), days=[0], **WHO)
    flow.create_blackout("tenant:acme", time(13), time(14), **WHO)
    off = flow.create_blackout("queue:default", time(15), time(16), **WHO)
    flow.update_blackout(off.pk, enabled=False, **WHO)
    found = flow.blackouts(["queue:default", "tenant:acme"], NOON, NOON + 24 * HOUR)
    assert [(one.scope, one.begin - NOON, one.end - NOON) for one in found] == [
        ("tenant:acme", HOUR, 2 * HOUR), ("queue:default", 10 * HOUR, 18 * HOUR),
    ]  # fmt: skip
    assert flow.blackouts("queue:other", NOON, NOON + 24 * HOUR) == []
    with pytest.raises(InvalidOption, match="end"):
        flow.blackouts("queue:default", NOON, datetime(2031, 1, 1))
