"""What people do with schedules, and what is refused."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError, call_command

import jobs
from jobs.engine import schedules as engine
from jobs.errors import InvalidOption, UnknownTarget
from jobs.operate import schedules
from tests.jobs.factories import move, row, sql
from tests.jobs.schedules.making import MINUTE, START, WHO, Clock, made, minutes, slots
from tests.specimens.handlers import Echo, Noop

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
def test_a_preview_leaves_out_what_a_pause_does(clock: Clock) -> None:
    made(missed="all")
    schedules.pause("tidy", until=START + 5 * MINUTE, **WHO)
    assert schedules.preview("tidy", 2) == [START + 5 * MINUTE, START + 6 * MINUTE]
    assert schedules.preview("tidy", 1, START + 7 * MINUTE) == [START + 8 * MINUTE]
    assert schedules.coming(schedules.find("tidy")) == START + 5 * MINUTE
    schedules.pause("tidy", **WHO)
    assert schedules.preview("tidy") == [] and schedules.coming(schedules.find("tidy")) is None
    schedules.resume("tidy", **WHO)
    assert schedules.coming(schedules.find("tidy")) == schedules.preview("tidy", 1)[0]
    sql("UPDATE jobs_schedule SET enabled = false")
    assert schedules.preview("tidy") == [] and schedules.coming(schedules.find("tidy")) is None


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
    with pytest.raises(jobs.errors.InvalidPayload, match="must be an instance"):
        schedules.create("tidy", Noop, interval=60, **WHO)  # type: ignore[arg-type]

    class Unhandled(jobs.Payload, kind="test.unhandled"):
        pass

    with pytest.raises(jobs.errors.UnknownKind, match=r"test\.unhandled"):
        schedules.create("tidy", Unhandled(), interval=60, **WHO)
    made()
    with pytest.raises(InvalidOption, match="there is a schedule 'tidy' already"):
        made()
    assert len(schedules.every()) == 1


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
