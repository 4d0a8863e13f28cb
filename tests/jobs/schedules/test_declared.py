"""Schedules that are declared in code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.checks import run_checks

import jobs
from jobs import timetable
from jobs.engine import schedules as engine
from jobs.engine import timetables
from jobs.engine.reconcile import Reconciler
from jobs.errors import InvalidOption
from jobs.operate import schedules
from tests.jobs.factories import row
from tests.jobs.schedules.making import MINUTE, START, WHO, Clock, made, minutes, race, slots
from tests.specimens.handlers import Echo, Noop


@pytest.fixture(autouse=True)
def none_of_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the domain apps declare is set aside."""
    monkeypatch.setattr(timetable, "_declared", {})


@pytest.fixture
def declare() -> Iterator[Callable[..., None]]:
    """Declares schedules as an app would; they are forgotten after the test."""
    names: set[str] = set()

    def declared(name: str, payload: jobs.Payload | None = None, **options: Any) -> None:
        jobs.schedule(name, payload or Noop(), **options)
        names.add(name)

    yield declared
    for name in names:
        timetable.forget(name)


def test_a_declaration_is_checked_at_once() -> None:
    with pytest.raises(InvalidOption, match="either cron or interval"):
        jobs.schedule("x", Noop())
    with pytest.raises(InvalidOption, match="did you mean 'priority'"):
        jobs.schedule("x", Noop(), interval=60, prioritty=1)
    assert all(t.name != "x" for t in timetable.declared())


def test_a_name_is_declared_once(declare: Callable[..., None]) -> None:
    declare("x", interval=60)
    declare("x", interval=60)
    with pytest.raises(InvalidOption, match="declared already, and differently"):
        jobs.schedule("x", Noop(), interval=61)


@pytest.mark.django_db
def test_declarations_become_rows_once(clock: Clock, declare: Callable[..., None]) -> None:
    declare("x", Echo(text="a"), cron="0 3 * * *", time_zone="Europe/Rome", priority=4)
    timetables.sync()
    timetables.sync()
    [found] = schedules.every()
    assert (found.name, found.kind, found.payload) == ("x", "test.echo", {"text": "a"})
    assert (found.cron, found.time_zone, found.options) == (
        "0 3 * * *",
        "Europe/Rome",
        {"priority": 4},
    )
    assert (found.is_declared, found.enabled) == (True, True)
    assert found.next_slot == datetime(2030, 5, 7, 1, 0, tzinfo=UTC)


@pytest.mark.django_db
def test_a_changed_declaration_changes_its_row(clock: Clock, declare: Callable[..., None]) -> None:
    declare("x", interval=60)
    timetables.sync()
    timetable.forget("x")
    declare("x", Echo(text="b"), cron="0 * * * *", missed="all", overlap="skip")
    clock(START + 90 * MINUTE)
    timetables.sync()
    [found] = schedules.every()
    assert (found.cron, found.interval, found.missed, found.overlap) == (
        "0 * * * *",
        None,
        "all",
        "skip",
    )
    assert (found.payload, found.next_slot) == ({"text": "b"}, START + 120 * MINUTE)


@pytest.mark.django_db
def test_a_restart_does_not_forget_missed_slots(clock: Clock, declare: Callable[..., None]) -> None:
    declare("x", cron="* * * * *", missed="all")
    timetables.sync()
    clock(START + 3 * MINUTE)
    timetables.sync()
    engine.tick()
    assert slots("x") == minutes(1, 2, 3)


@pytest.mark.django_db
def test_what_is_declared_no_more_is_disabled_and_comes_back(
    clock: Clock, declare: Callable[..., None]
) -> None:
    declare("x", cron="* * * * *", missed="all")
    timetables.sync()
    timetable.forget("x")
    timetables.sync()
    assert not schedules.find("x").enabled
    clock(START + 3 * MINUTE)
    assert engine.tick() == []
    declare("x", cron="* * * * *", missed="all")
    timetables.sync()
    assert engine.tick() == []
    clock(START + 4 * MINUTE)
    assert len(engine.tick()) == 1
    assert slots("x") == minutes(4)


@pytest.mark.django_db
def test_a_pause_survives_the_restart(clock: Clock, declare: Callable[..., None]) -> None:
    declare("x", interval=60)
    timetables.sync()
    schedules.pause("x", **WHO)
    timetable.forget("x")
    declare("x", interval=120)
    timetables.sync()
    found = schedules.find("x")
    assert (found.paused_by, found.paused_reason) == ("ada", "a test")
    clock(START + 10 * MINUTE)
    assert engine.tick() == []


@pytest.mark.django_db
def test_a_declared_schedule_cannot_be_removed(clock: Clock, declare: Callable[..., None]) -> None:
    declare("x", interval=60)
    timetables.sync()
    with pytest.raises(InvalidOption, match="declared in code; pause it instead"):
        schedules.remove("x", **WHO)


@pytest.mark.django_db
def test_a_persons_schedule_is_not_overwritten_by_code(
    clock: Clock, declare: Callable[..., None]
) -> None:
    made("x", payload=Echo(text="mine"))
    declare("x", interval=60)
    timetables.sync()
    [found] = schedules.every()
    assert (found.payload, found.is_declared) == ({"text": "mine"}, False)


@pytest.mark.django_db
def test_a_wrong_declaration_stops_nothing_else(
    clock: Clock, declare: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    class Unhandled(jobs.Payload, kind="test.unhandled"):
        pass

    declare("bad", Unhandled(), interval=60)
    declare("good", interval=60)
    timetables.sync()
    assert [s.name for s in schedules.every()] == ["good"]
    assert "schedule bad is declared wrongly" in caplog.text


def test_the_check_names_a_wrong_declaration(declare: Callable[..., None]) -> None:
    class Unhandled(jobs.Payload, kind="test.unhandled"):
        pass

    declare("good", interval=60)
    declare("bad", Unhandled(), interval=60)
    declare("worse", interval=60, priority=101)
    found = [(m.id, m.msg) for m in run_checks(tags=["jobs"], databases=[])]
    assert [id_ for id_, _ in found] == ["jobs.E030", "jobs.E030"]
    assert "schedule 'bad': no handler is registered" in found[0][1]
    assert "schedule 'worse': priority: must be" in found[1][1]


@pytest.mark.django_db(transaction=True)
def test_dispatchers_that_start_together_agree(declare: Callable[..., None]) -> None:
    for number in range(10):
        declare(f"x{number}", interval=60)
    race(lambda _: timetables.sync(), 4)
    assert [s.name for s in schedules.every()] == [f"x{n}" for n in range(10)]
    assert all(s.next_slot is not None for s in schedules.every())


@pytest.mark.django_db
def test_the_reconciler_serves_schedules(clock: Clock, declare: Callable[..., None]) -> None:
    declare("x", cron="* * * * *")
    Reconciler("test").round([])
    clock(START + MINUTE)
    Reconciler("test").round([])
    assert slots("x") == minutes(1)


@pytest.mark.django_db
def test_a_scheduled_job_runs_like_any_other(clock: Clock) -> None:
    made(payload=Echo(text="ran"))
    clock(START + MINUTE)
    [job_id] = engine.tick()
    from jobs.testing import run_jobs

    assert run_jobs().succeeded == 1
    assert row(job_id).result == "ran"
