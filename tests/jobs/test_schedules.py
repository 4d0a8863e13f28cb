"""Schedules: one job per slot for ever, whoever looks, however late."""

from __future__ import annotations

import getpass
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

import jobs
from jobs import timetable
from jobs.engine import schedules as engine
from jobs.engine import timetables
from jobs.engine.reconcile import Reconciler
from jobs.errors import InvalidOption, UnknownTarget
from jobs.models import Schedule
from jobs.operate import schedules
from tests.jobs.factories import move, row, sql
from tests.specimens.handlers import Echo, Noop

START = datetime(2030, 5, 6, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WHO: dict[str, Any] = {"by": "ada", "reason": "a test"}

Clock = Callable[[datetime | None], None]


@pytest.fixture
def clock(set_clock: Clock) -> Clock:
    """The clock stands at START until it is moved."""
    set_clock(START)
    return set_clock


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


def made(name: str = "tidy", **options: Any) -> Schedule:
    """A schedule made by a person; each minute unless told otherwise."""
    if "interval" not in options:
        options.setdefault("cron", "* * * * *")
    return schedules.create(name, options.pop("payload", Noop()), **WHO, **options)


def slots(name: str = "tidy") -> list[datetime]:
    """The slots that have a job, in the order of their enqueue."""
    return [
        slot
        for (slot,) in sql(
            "SELECT j.slot_at FROM jobs_job j JOIN jobs_schedule s ON s.id = j.schedule_id "
            "WHERE s.name = %s AND j.slot_at IS NOT NULL ORDER BY j.created_at, j.id",
            [name],
        )
    ]


def minutes(*numbers: float) -> list[datetime]:
    return [START + n * MINUTE for n in numbers]


# ---- slots become jobs


@pytest.mark.django_db
def test_a_due_slot_becomes_one_job(clock: Clock) -> None:
    made(payload=Echo(text="hé"), priority=7, queue="night", tenant="acme", tags=["a", "b"])
    assert engine.tick() == []
    clock(START + MINUTE)
    [job_id] = engine.tick()
    job = row(job_id)
    assert (job.kind, job.payload, job.queue, job.priority) == (
        "test.echo",
        {"text": "hé"},
        "night",
        7,
    )
    assert (job.tenant, job.tags, job.slot_at) == ("acme", ["a", "b"], START + MINUTE)
    assert engine.tick() == []
    found = schedules.find("tidy")
    assert job.schedule_id == found.id
    assert (found.last_slot, found.next_slot) == (START + MINUTE, START + 2 * MINUTE)


@pytest.mark.django_db
def test_every_slot_comes_once_while_the_clock_runs(clock: Clock) -> None:
    made()
    for second in range(0, 301, 20):
        clock(START + timedelta(seconds=second))
        engine.tick()
    assert slots() == minutes(1, 2, 3, 4, 5)


@pytest.mark.django_db
def test_an_interval_counts_from_the_creation(clock: Clock) -> None:
    clock(START + timedelta(seconds=7.25))
    made(interval=timedelta(seconds=90))
    clock(START + 4 * MINUTE)
    engine.tick()
    assert slots() == [START + timedelta(seconds=187.25)]
    assert schedules.find("tidy").next_slot == START + timedelta(seconds=277.25)


@pytest.mark.django_db
def test_a_deleted_job_does_not_bring_its_slot_back(clock: Clock) -> None:
    made(missed="all")
    clock(START + 3 * MINUTE)
    jobs_made = engine.tick()
    assert len(jobs_made) == 3
    for job_id in jobs_made:
        move(job_id, "cancelled")
    sql("DELETE FROM jobs_job WHERE id = ANY(%s)", [jobs_made])
    assert engine.tick() == []
    sql("UPDATE jobs_schedule SET next_slot = %s", [START + MINUTE])
    assert engine.tick() == []
    assert schedules.find("tidy").next_slot == START + 4 * MINUTE


@pytest.mark.django_db
def test_the_database_refuses_a_second_job_of_a_slot(clock: Clock) -> None:
    made()
    clock(START + MINUTE)
    [first] = engine.tick()
    other = jobs.enqueue(Noop()).id
    statement = "UPDATE jobs_job SET (schedule_id, slot_at) = (%s, %s) WHERE id = %s"
    with pytest.raises(IntegrityError, match="jobs_job_one_per_slot"), transaction.atomic():
        sql(statement, [row(first).schedule_id, row(first).slot_at, other])


@pytest.mark.django_db
def test_a_memory_lost_by_hand_still_makes_no_second_job(clock: Clock) -> None:
    made(missed="all")
    clock(START + 2 * MINUTE)
    assert len(engine.tick()) == 2
    sql("UPDATE jobs_schedule SET last_slot = NULL, next_slot = %s", [START + MINUTE])
    assert engine.tick() == []
    assert slots() == minutes(1, 2)


@pytest.mark.django_db
def test_a_rollback_takes_job_and_slot_back_together(clock: Clock) -> None:
    made()
    clock(START + MINUTE)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        assert len(engine.tick()) == 1
        raise ZeroDivisionError
    assert slots() == []
    assert len(engine.tick()) == 1


def race(work: Callable[[int], None], count: int) -> None:
    """The work of each thread is done, on a connection of its own."""
    errors: list[BaseException] = []
    gate = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            gate.wait()
            work(number)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_any_number_of_schedulers_make_one_job_per_slot(missed: Any, clock: Clock) -> None:
    names = ["a", "b", "c"]
    for name in names:
        made(name, missed=missed)
    counts = [0, 0, 0, 0]

    def scheduler(number: int) -> None:
        for minute in range(1, 61):
            moment = (START + minute * MINUTE).isoformat()
            sql("SELECT set_config('jobs.now', %s, false)", [moment])
            counts[number] += len(engine.tick())

    race(scheduler, len(counts))
    clock(START + 60 * MINUTE)
    counts[0] += len(engine.tick())
    for name in names:
        found = slots(name)
        assert len(found) == len(set(found))
        assert max(found) == START + 60 * MINUTE
        if missed == "all":
            assert sorted(found) == minutes(*range(1, 61))
    assert sum(counts) == sum(len(slots(name)) for name in names)


@pytest.mark.django_db(transaction=True)
def test_schedulers_that_race_for_one_slot(clock: Clock) -> None:
    made()
    for minute in range(1, 21):
        found: list[Any] = []

        def scheduler(_: int, minute: int = minute, found: list[Any] = found) -> None:
            moment = (START + minute * MINUTE).isoformat()
            sql("SELECT set_config('jobs.now', %s, false)", [moment])
            found.extend(engine.tick())

        race(scheduler, 4)
        assert len(found) == 1
    assert slots() == minutes(*range(1, 21))


@pytest.mark.django_db(transaction=True)
def test_a_schedule_that_is_looked_at_is_passed_by(clock: Clock) -> None:
    made("held")
    made("free")
    clock(START + MINUTE)
    made_jobs: list[Any] = []

    def scheduler(_: int) -> None:
        sql("SELECT set_config('jobs.now', %s, false)", [(START + MINUTE).isoformat()])
        made_jobs.extend(engine.tick())

    with transaction.atomic():
        sql("SELECT 1 FROM jobs_schedule WHERE name = 'held' FOR UPDATE")
        race(scheduler, 1)
        assert (slots("held"), slots("free")) == ([], minutes(1))
    assert len(made_jobs) == 1
    assert len(engine.tick()) == 1


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


# ---- what people do


@pytest.mark.django_db
def test_a_paused_schedule_makes_no_jobs_and_makes_nothing_up(clock: Clock) -> None:
    made(missed="all")
    found = schedules.pause("tidy", by="ada", reason="too loud")
    assert (found.paused_at, found.paused_by, found.paused_reason) == (START, "ada", "too loud")
    clock(START + 5.5 * MINUTE)
    assert engine.tick() == []
    found = schedules.resume("tidy", **WHO)
    assert (found.paused_at, found.paused_by, found.paused_reason) == (None, "", "")
    assert engine.tick() == []
    clock(START + 7 * MINUTE)
    engine.tick()
    assert slots() == minutes(6, 7)


@pytest.mark.django_db
def test_a_pause_ends_by_itself(clock: Clock) -> None:
    made(missed="all")
    schedules.pause("tidy", until=START + 5 * MINUTE, **WHO)
    clock(START + 4 * MINUTE)
    assert engine.tick() == []
    clock(START + 6 * MINUTE)
    engine.tick()
    assert slots() == minutes(5, 6)
    assert schedules.find("tidy").paused_at is None
    assert schedules.find("tidy").paused_until is None


@pytest.mark.django_db
def test_a_pause_that_ends_before_the_next_slot(clock: Clock) -> None:
    made(cron="0 * * * *")
    schedules.pause("tidy", until=START + 5 * MINUTE, **WHO)
    clock(START + 6 * MINUTE)
    assert engine.tick() == []
    found = schedules.find("tidy")
    assert (found.paused_at, found.next_slot) == (None, START + 60 * MINUTE)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("until", "problem"),
    [
        (START, "has passed"),
        (START - MINUTE, "has passed"),
        (datetime(2031, 1, 1), "naive"),
        ("2031-01-01", "must be a datetime"),
    ],
)
def test_a_wrong_end_of_a_pause_is_refused(until: Any, problem: str, clock: Clock) -> None:
    made()
    with pytest.raises(InvalidOption, match=problem):
        schedules.pause("tidy", until=until, **WHO)
    assert schedules.find("tidy").paused_at is None


@pytest.mark.django_db
def test_run_now_makes_a_job_beside_the_slots(clock: Clock) -> None:
    before = made(payload=Echo(text="x"))
    schedules.pause("tidy", **WHO)
    job = row(schedules.run_now("tidy", **WHO))
    assert (job.kind, job.schedule_id, job.slot_at) == ("test.echo", before.id, None)
    schedules.run_now("tidy", **WHO)
    after = schedules.find("tidy")
    assert (after.last_slot, after.next_slot) == (before.last_slot, before.next_slot)


@pytest.mark.django_db
def test_run_now_heeds_the_overlap(clock: Clock) -> None:
    made(overlap="skip")
    first = schedules.run_now("tidy", **WHO)
    with pytest.raises(InvalidOption, match=f"job {first} of schedule 'tidy' is unfinished"):
        schedules.run_now("tidy", **WHO)
    clock(START + MINUTE)
    assert engine.tick() == []
    move(first, "cancelled")
    schedules.run_now("tidy", **WHO)


@pytest.mark.django_db
def test_a_preview_shows_the_next_slots_of_the_zone(clock: Clock) -> None:
    made(cron="30 2 * * *", time_zone="Europe/Rome")
    rome = ZoneInfo("Europe/Rome")
    start = datetime(2031, 3, 29, 12, tzinfo=rome)
    assert schedules.preview("tidy", 2, start) == [
        datetime(2031, 3, 30, 3, 0, tzinfo=rome),
        datetime(2031, 3, 31, 2, 30, tzinfo=rome),
    ]
    assert schedules.preview("tidy", 1) == [datetime(2030, 5, 7, 2, 30, tzinfo=rome)]
    for count in (0, 101, True, "5"):
        with pytest.raises(InvalidOption, match="count"):
            schedules.preview("tidy", count)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="naive"):
        schedules.preview("tidy", 1, datetime(2031, 1, 1))


@pytest.mark.django_db
def test_a_removed_schedule_leaves_its_jobs(clock: Clock) -> None:
    made()
    clock(START + MINUTE)
    [job_id] = engine.tick()
    schedules.remove("tidy", **WHO)
    assert row(job_id).state == "pending"
    with pytest.raises(UnknownTarget, match="there is no schedule 'tidy'"):
        schedules.find("tidy")


@pytest.mark.django_db
def test_every_write_says_who_and_why(clock: Clock) -> None:
    made()
    writes: list[Callable[..., object]] = [
        schedules.pause,
        schedules.resume,
        schedules.run_now,
        schedules.remove,
    ]
    for write in writes:
        for by, reason, option in (("", "x", "by"), ("x", " ", "reason"), ("x", None, "reason")):
            with pytest.raises(InvalidOption) as caught:
                write("tidy", by=by, reason=reason)
            assert caught.value.option == option
        with pytest.raises(UnknownTarget, match="there is no schedule 'nobody'"):
            write("nobody", **WHO)
        with pytest.raises(UnknownTarget):
            write("a\x00b", **WHO)
    with pytest.raises(InvalidOption, match="is not paused"):
        schedules.resume("tidy", **WHO)
    assert sql("SELECT count(*) FROM jobs_job") == [(0,)]


# ---- bad input


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"cron": "0 * * * *", "interval": 60}, "cron"),
        ({}, "cron"),
        ({"cron": ""}, "cron"),
        ({"cron": "0," * 5000 + "0 * * * *"}, "cron"),
        ({"cron": "* * * * * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "0 * * * *", "time_zone": "Europe/Roma"}, "time_zone"),
        ({"cron": "0 * * * *", "time_zone": ""}, "time_zone"),
        ({"interval": 60, "time_zone": "Europe/Rome"}, "time_zone"),
        ({"interval": 0}, "interval"),
        ({"interval": -60}, "interval"),
        ({"interval": timedelta(seconds=1)}, "interval"),
        ({"interval": 60, "missed": "never"}, "missed"),
        ({"interval": 60, "overlap": None}, "overlap"),
        ({"interval": 60, "priority": 101}, "priority"),
        ({"interval": 60, "priorty": 1}, "priorty"),
        ({"interval": 60, "run_at": START}, "run_at"),
        ({"interval": 60, "job_id": "x"}, "job_id"),
        ({"interval": 60, "expires": START}, "expires"),
        ({"interval": 60, "queue": "no good"}, "queue"),
        ({"interval": 60, "timeout": float("nan")}, "timeout"),
        ({"interval": 60, "tags": [object()]}, "tags"),
        ({"interval": 60, "unique": object()}, "unique"),
    ],
)
def test_wrong_options_are_refused_by_name(
    options: dict[str, Any], option: str, clock: Clock
) -> None:
    with pytest.raises(InvalidOption) as caught:
        schedules.create("tidy", Noop(), **WHO, **options)
    assert caught.value.option == option
    assert len(str(caught.value)) < 400
    assert schedules.every() == []


@pytest.mark.django_db
def test_wrong_names_and_payloads_are_refused(clock: Clock) -> None:
    for name in ("", "no good", "x" * 200, None, "a\x00"):
        with pytest.raises(InvalidOption, match="name"):
            schedules.create(name, Noop(), interval=60, **WHO)  # type: ignore[arg-type]
    with pytest.raises(jobs.InvalidPayload, match="must be an instance"):
        schedules.create("tidy", Noop, interval=60, **WHO)  # type: ignore[arg-type]

    class Unhandled(jobs.Payload, kind="test.unhandled"):
        pass

    with pytest.raises(jobs.UnknownKind, match=r"test\.unhandled"):
        schedules.create("tidy", Unhandled(), interval=60, **WHO)
    made()
    with pytest.raises(InvalidOption, match="there is a schedule 'tidy' already"):
        made()
    assert len(schedules.every()) == 1


# ---- declared in code


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
    found = [(m.id, m.msg) for m in run_checks(tags=["jobs"])]
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


# ---- the command line


def command(*arguments: str) -> str:
    out = StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        call_command("jobs", "schedules", *arguments)
    return out.getvalue()


@pytest.mark.django_db
def test_the_command_lists_and_shows(clock: Clock) -> None:
    made(cron="30 2 * * *", time_zone="Europe/Rome", payload=Echo(text="secret"))
    made("beat", interval=90)
    text = command("list")
    assert "30 2 * * * Europe/Rome" in text and "every 90 s" in text
    data = json.loads(command("list", "--json"))
    assert [s["name"] for s in data] == ["beat", "tidy"]
    assert data[1]["next_slot"] == "2030-05-07T00:30:00+00:00"
    shown = json.loads(command("show", "tidy", "--json"))
    assert shown == data[1]
    assert "secret" not in command("show", "tidy") + json.dumps(data)


@pytest.mark.django_db
def test_the_command_pauses_resumes_runs_and_looks_ahead(clock: Clock) -> None:
    made()
    command("pause", "tidy", "--reason", "maintenance", "--until", "2030-05-06T13:00+00:00")
    found = schedules.find("tidy")
    assert (found.paused_reason, found.paused_until) == ("maintenance", START + 60 * MINUTE)
    assert found.paused_by == getpass.getuser()
    assert "paused until 2030-05-06T13:00:00+00:00" in command("list")
    command("resume", "tidy", "--reason", "done")
    assert schedules.find("tidy").paused_at is None
    job_id = json.loads(command("run-now", "tidy", "--reason", "now", "--json"))["job_id"]
    assert row(job_id).state == "pending"
    assert command("preview", "tidy", "--count", "2").split() == [
        "2030-05-06T12:01:00+00:00",
        "2030-05-06T12:02:00+00:00",
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("show", "nobody"), "there is no schedule 'nobody'"),
        (("pause", "tidy"), "required: --reason"),
        (("pause", "tidy", "--reason", ""), "reason: is empty"),
        (("pause", "tidy", "--reason", "x", "--until", "2031-01-01"), "needs a time zone"),
        (("pause", "tidy", "--reason", "x", "--until", "soon"), "is no time"),
        (("preview", "tidy", "--count", "1000"), "count: must be a whole number from 1 to 100"),
        (("preview", "tidy", "--count", "0"), "must be at least 1"),
        (("resume", "tidy", "--reason", "x"), "is not paused"),
    ],
)
def test_the_command_refuses_in_words(
    arguments: tuple[str, ...], problem: str, clock: Clock
) -> None:
    made()
    with pytest.raises(CommandError, match=problem):
        command(*arguments)
