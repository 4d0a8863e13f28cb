"""Slots become jobs: one per slot for ever, whoever looks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

import jobs
from jobs.engine import schedules as engine
from jobs.operate import schedules
from tests.jobs.factories import move, row, sql
from tests.jobs.schedules.making import MINUTE, START, Clock, made, minutes, race, slots
from tests.specimens.handlers import Echo, Noop


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
