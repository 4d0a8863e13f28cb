"""What is paused does not start, and starts as soon as it is open again."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from jobs.engine import closures, withdrawal
from jobs.errors import InvalidOption
from jobs.models import Closure, Pause, Slot
from jobs.operate.pauses import pause, paused, resume
from tests.jobs.factories import WORKER, a_job, row, state
from tests.jobs.pauses.closing import NOON, SCOPES, WHO, SetClock, a_blackout, admit, claim, closed
from tests.specimens.handlers import Echo

pytestmark = pytest.mark.django_db


# ---- what a pause stops


@pytest.mark.parametrize("scope", SCOPES)
def test_a_paused_scope_is_not_dispatched_and_the_rest_is(scope: str) -> None:
    mine = a_job(tenant="acme", exclusive="door")
    others = {a_job(payload=Echo(text="x"), tenant="other"), a_job(payload=Echo(text="y"))}
    pause(scope, **WHO)
    assert admit() == (set() if scope == "queue:default" else others)
    assert state(mine) == "pending"
    resume(scope, **WHO)
    assert mine in admit()
    assert row(mine).attempt == 0


@pytest.mark.parametrize("scope", SCOPES)
def test_a_queued_job_of_a_paused_scope_is_refused_and_taken_back(scope: str) -> None:
    mine = a_job("queued", tenant="acme", exclusive="door")
    other = a_job("queued", Echo(text="x"), queue="elsewhere")
    Slot.objects.create(key="door", job_id=mine)
    pause(scope, **WHO)
    assert claim(mine) == set()
    assert withdrawal.withdraw(WORKER) == 1
    job = row(mine)
    assert (job.state, job.queued_at, job.attempt) == ("pending", None, 0)
    assert job.history[-1][1:] == ["queued", "pending", WORKER, "closed before it started"]
    assert not Slot.objects.exists()
    assert claim(other, queue="elsewhere") == {other}
    resume(scope, **WHO)
    assert admit() == {mine}
    assert claim(mine) == {mine}


def test_a_running_job_runs_on() -> None:
    mine = a_job("running")
    pause("queue:default", **WHO)
    withdrawal.withdraw(WORKER)
    assert state(mine) == "running"


def test_the_pause_of_jobs_without_a_tenant() -> None:
    mine, other = a_job(), a_job(tenant="acme")
    pause("tenant:", **WHO)
    assert admit() == {other}
    assert state(mine) == "pending"


def test_a_closed_backlog_does_not_starve_the_rest() -> None:
    for number in range(260):
        a_job(tenant=f"closed-{number:03}")
        Closure.objects.create(scope=f"tenant:closed-{number:03}", why="test")
    mine = a_job(tenant="open")
    found: set[UUID] = set()
    for _ in range(3):
        found |= admit(budget=1)
    assert found == {mine}


# ---- its end


def test_a_pause_ends_by_itself(set_clock: SetClock) -> None:
    set_clock(NOON)
    mine = a_job()
    pause("queue:default", until=NOON + timedelta(hours=1), **WHO)
    set_clock(NOON + timedelta(minutes=59))
    closures.refresh()
    assert admit() == set()
    set_clock(NOON + timedelta(hours=1))
    assert paused() == []
    assert admit() == {mine}, "also before anybody has tidied up"
    assert closures.refresh().opened == ("queue:default",)
    assert not Pause.objects.exists()
    assert not Closure.objects.exists()


def test_the_end_of_a_keys_pause_wakes_its_best_waiter(set_clock: SetClock) -> None:
    set_clock(NOON)
    pause("key:door", until=NOON + timedelta(hours=1), **WHO)
    late, early = a_job(exclusive="door"), a_job(exclusive="door", priority=50)
    assert admit() == set()
    assert [row(late).wait, row(early).wait] == [2, 2]
    set_clock(NOON + timedelta(hours=2))
    closures.refresh()
    assert [row(late).wait, row(early).wait] == [2, 0]
    assert admit() == {early}


def test_pausing_twice_replaces_reason_and_end(set_clock: SetClock) -> None:
    set_clock(NOON)
    pause("queue:default", by="ann", reason="one", until=NOON + timedelta(hours=1))
    again = pause("queue:default", by="bob", reason="two")
    assert (again.reason, again.by, again.until) == ("two", "bob", None)
    assert closed() == {"queue:default": None}
    assert [p.scope for p in paused()] == ["queue:default"]
    assert resume("queue:default", **WHO)
    assert not resume("queue:default", **WHO)
    assert closed() == {}


def test_a_pause_that_is_rolled_back_closes_nothing() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        pause("queue:default", **WHO)
        raise ZeroDivisionError
    assert closed() == {}
    assert not Pause.objects.exists()


@pytest.mark.parametrize(
    ("scope", "problem"),
    [
        ("default", "starts with none of"),
        ("queu:default", "did you mean 'queue:default'"),
        ("queue:", "may only have letters"),
        ("queue:a b", "may only have letters"),
        ("kind:test.nop", "did you mean 'test.noop'"),
        ("key:", "is empty"),
        ("tenant:a\x1fb", "control character"),
        (None, "must be text"),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused(scope: Any, problem: str) -> None:
    for act in (pause, resume):
        with pytest.raises(InvalidOption, match=f"^scope: .*{problem}"):
            act(scope, **WHO)
    assert not Pause.objects.exists()


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("until", datetime(2040, 1, 1), "time zone"),
        ("until", datetime(2020, 1, 1, tzinfo=UTC), "has passed"),
        ("until", 3600, "must be a datetime"),
        ("by", "", "is empty"),
        ("by", None, "must be text"),
        ("reason", " ", "is empty"),
        ("reason", "x" * 501, "longer than"),
    ],
)
def test_a_pause_says_who_why_and_until_when(option: str, value: Any, problem: str) -> None:
    with pytest.raises(InvalidOption, match=f"^{option}: .*{problem}"):
        pause("queue:default", **{**WHO, option: value})
    assert not Pause.objects.exists()


# ---- on the command line


def test_the_command_pauses_lists_and_resumes(
    set_clock: SetClock, capsys: pytest.CaptureFixture[str]
) -> None:
    set_clock(NOON)
    call_command("jobs", "pauses", "list")
    assert capsys.readouterr().out == "All is open.\n"
    a_blackout("kind:test.noop")
    capsys.readouterr()
    until = "--until=2040-01-02T14:00+00:00"
    call_command("jobs", "pauses", "pause", "queue:default", "--reason=moving", until)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["CLOSED", "UNTIL", "WHY"]
    assert lines[1].startswith("kind:test.noop  2040-01-02T13:00:00+00:00  blackout window")
    assert lines[2].startswith("queue:default   2040-01-02T14:00:00+00:00  paused by ")
    assert lines[2].endswith(f"paused by {getpass.getuser()}: moving")
    call_command("jobs", "pauses", "resume", "queue:default", "--reason=moved", "--json")
    [left] = json.loads(capsys.readouterr().out)
    assert left == {
        "scope": "kind:test.noop",
        "what": "blackout",
        "until": "2040-01-02T13:00:00+00:00",
        "reason": "maintenance",
        "by": None,
    }
    with pytest.raises(CommandError, match=r"scope: .*did you mean 'queue:default'"):
        call_command("jobs", "pauses", "pause", "queu:default", "--reason=x")
