"""Slots that were missed, left out or could not be made into jobs."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs import timetable
from jobs.engine import schedules as engine
from jobs.operate import schedules
from tests.jobs.factories import move, row, sql
from tests.jobs.schedules.making import MINUTE, START, Clock, made, minutes, slots

# ---- missed slots


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("missed", "late", "expected"),
    [
        ("latest", 0, [10]),
        ("latest", 45, [10]),
        ("skip", 0, [10]),
        ("skip", 59, [10]),
        ("all", 0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_after_a_downtime(missed: Any, late: float, expected: list[int], clock: Clock) -> None:
    made(missed=missed)
    clock(START + 10 * MINUTE + timedelta(seconds=late))
    engine.tick()
    assert slots() == minutes(*expected)
    clock(START + 11 * MINUTE)
    engine.tick()
    assert slots() == minutes(*expected, 11)


@pytest.mark.django_db
@pytest.mark.parametrize(("missed", "expected"), [("skip", 0), ("latest", 1), ("all", 3)])
def test_after_a_downtime_between_two_slots(missed: Any, expected: int, clock: Clock) -> None:
    made(cron="0 * * * *", missed=missed)
    clock(START + timedelta(hours=3, minutes=20))
    assert len(engine.tick()) == expected
    found = schedules.find("tidy")
    assert found.last_slot == START + timedelta(hours=3)
    assert found.next_slot == START + timedelta(hours=4)


@pytest.mark.django_db
def test_all_missed_slots_come_in_portions(clock: Clock) -> None:
    made(missed="all")
    clock(START + 250 * MINUTE)
    assert [len(engine.tick()) for _ in range(4)] == [100, 100, 50, 0]
    assert slots() == minutes(*range(1, 251))


@pytest.mark.django_db
@pytest.mark.parametrize("missed", ["skip", "latest"])
def test_ten_years_of_downtime_are_nothing(missed: Any, clock: Clock) -> None:
    made(missed=missed, time_zone="Europe/Rome")
    made("beat", interval=5, missed=missed)
    clock(START.replace(year=2040))
    assert len(engine.tick()) == 2
    assert slots() == [START.replace(year=2040)]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("time_zone", "cron", "start", "hours", "expected"),
    [
        ("Europe/Rome", "30 2 * * *", "2030-03-30T12:00Z", 24, ["2030-03-31T01:00Z"]),
        ("Europe/Rome", "30 2 * * *", "2030-10-26T12:00Z", 24, ["2030-10-27T00:30Z"]),
        (
            "Europe/Rome",
            "0 * * * *",
            "2030-03-31T00:30Z",
            2,
            ["2030-03-31T01:00Z", "2030-03-31T02:00Z"],
        ),
        ("Europe/Rome", "0 2 * * *", "2030-10-26T23:30Z", 3, ["2030-10-27T00:00Z"]),
        (
            "Europe/Rome",
            "0 * * * *",
            "2030-10-26T23:30Z",
            3,
            ["2030-10-27T00:00Z", "2030-10-27T01:00Z", "2030-10-27T02:00Z"],
        ),
        ("America/Sao_Paulo", "0 0 * * *", "2018-11-03T12:00Z", 24, ["2018-11-04T03:00Z"]),
        ("America/Sao_Paulo", "30 23 * * *", "2018-02-17T12:00Z", 24, ["2018-02-18T01:30Z"]),
        (
            "America/Sao_Paulo",
            "30 * * * *",
            "2018-02-18T01:00Z",
            3,
            ["2018-02-18T01:30Z", "2018-02-18T02:30Z", "2018-02-18T03:30Z"],
        ),
    ],
)
def test_jobs_over_a_change_of_the_clock(
    time_zone: str, cron: str, start: str, hours: int, expected: list[str], clock: Clock
) -> None:
    begin = datetime.fromisoformat(start)
    clock(begin)
    made(cron=cron, time_zone=time_zone)
    for quarter in range(1, 4 * hours + 1):
        clock(begin + quarter * 15 * MINUTE)
        engine.tick()
    assert slots() == [datetime.fromisoformat(text) for text in expected]


# ---- overlap


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["pending", "queued", "running", "blocked"])
def test_a_slot_is_left_out_while_an_earlier_job_is_unfinished(state: str, clock: Clock) -> None:
    made(overlap="skip")
    clock(START + MINUTE)
    [first] = engine.tick()
    if state == "running":
        move(first, "queued")
    if state == "blocked":
        sql("UPDATE jobs_job SET open_parents = 1 WHERE id = %s", [first])
        sql("ALTER TABLE jobs_job DISABLE TRIGGER USER")
    if state != "pending":
        move(first, state)
    if state == "blocked":
        sql("ALTER TABLE jobs_job ENABLE TRIGGER USER")
    clock(START + 2 * MINUTE)
    assert engine.tick() == []
    sql("ALTER TABLE jobs_job DISABLE TRIGGER USER")
    move(first, "cancelled")
    sql("ALTER TABLE jobs_job ENABLE TRIGGER USER")
    clock(START + 3 * MINUTE)
    assert len(engine.tick()) == 1
    assert slots() == minutes(1, 3)


@pytest.mark.django_db
def test_jobs_may_overlap_where_that_is_allowed(clock: Clock) -> None:
    made()
    for minute in (1, 2, 3):
        clock(START + minute * MINUTE)
        engine.tick()
    assert slots() == minutes(1, 2, 3)


@pytest.mark.django_db
def test_all_and_no_overlap_make_one_job(clock: Clock) -> None:
    made(missed="all", overlap="skip")
    clock(START + 5 * MINUTE)
    assert len(engine.tick()) == 1
    assert schedules.find("tidy").next_slot == START + 6 * MINUTE


@pytest.mark.django_db
def test_a_taken_key_leaves_the_slot_out(clock: Clock) -> None:
    made(unique=jobs_unique("one"))
    clock(START + MINUTE)
    [first] = engine.tick()
    clock(START + 2 * MINUTE)
    assert engine.tick() == []
    assert row(first).slot_at == START + MINUTE
    move(first, "cancelled")
    clock(START + 3 * MINUTE)
    assert len(engine.tick()) == 1


def jobs_unique(key: str, **options: Any) -> Any:
    from jobs.limits import Unique

    return Unique(key, **options)


def test_options_come_back_as_they_were() -> None:
    options = {
        "unique": jobs_unique("k", for_=timedelta(hours=1)),
        "expires": timedelta(minutes=5),
        "tags": ("b", "a"),
        "exclusive": "agent:1",
        "priority": -3,
    }
    stored = json.loads(json.dumps(timetable.stored(options)))
    assert timetable.revived(stored) == {**options, "expires": 300.0, "tags": ["b", "a"]}


# ---- failing


@pytest.mark.django_db
def test_a_schedule_that_cannot_make_its_job_says_why_and_goes_on_when_it_can(
    clock: Clock,
) -> None:
    made("bad", missed="all")
    made("good")
    sql("UPDATE jobs_schedule SET kind = 'test.gone' WHERE name = 'bad'")
    clock(START + MINUTE)
    assert len(engine.tick()) == 1
    assert (slots("bad"), slots("good")) == ([], minutes(1))
    assert "no handler is registered for kind 'test.gone'" in schedules.find("bad").error
    assert schedules.find("bad").next_slot == START + MINUTE
    sql("UPDATE jobs_schedule SET kind = 'test.noop' WHERE name = 'bad'")
    clock(START + 2 * MINUTE)
    engine.tick()
    assert slots("bad") == minutes(1, 2)
    assert schedules.find("bad").error == ""


@pytest.mark.django_db
@pytest.mark.parametrize(
    "columns", ["cron = '61 * * * *'", "time_zone = 'Mars'", "options = '[]'", "payload = '7'"]
)
def test_a_row_spoilt_by_hand_stops_nobody_else(columns: str, clock: Clock) -> None:
    made("bad")
    made("good")
    sql(f"UPDATE jobs_schedule SET {columns} WHERE name = 'bad'")  # noqa: S608
    clock(START + MINUTE)
    engine.tick()
    assert (slots("bad"), slots("good")) == ([], minutes(1))
    assert schedules.find("bad").error != ""
