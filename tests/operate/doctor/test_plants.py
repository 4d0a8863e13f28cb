"""The doctor finds each contradiction that is planted, and nothing on a sound database."""

from __future__ import annotations

import pytest
from django.db import connection

import jobs
from jobs.operate.doctor import EVERY, violations
from jobs.operate.schema import GUARDED, tables
from tests.operate.doctor.plants import BULK_PLANTS, EVENT_PLANTS, FLOW_PLANTS, PLANTS, STUCK
from tests.operate.doctor.rows import (
    blocked,
    failed,
    found,
    holding,
    member,
    replayed,
    run,
    running,
    succeeded,
    tagged,
)
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


def unguard() -> None:
    """Switch off every trigger, CHECK and foreign key, until the rollback."""
    run("SET CONSTRAINTS ALL IMMEDIATE")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text, string_agg('DROP CONSTRAINT ' || conname, ', ') "
            "FROM pg_constraint WHERE contype IN ('c', 'f') "
            "AND conrelid::regclass::text = ANY (%s) GROUP BY 1",
            [tables()],
        )
        for table, drops in cursor.fetchall():
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER, {drops}")


def test_a_sound_database_has_no_violation() -> None:
    tagged()
    jobs.enqueue(Noop())
    holding()
    blocked()
    member()
    replayed()
    running()
    succeeded()
    failed()
    assert violations() == []


@pytest.mark.parametrize("name", PLANTS)
def test_what_is_planted_is_found(name: str) -> None:
    make, statement = PLANTS[name]
    job_id = make()
    assert name not in found()
    unguard()
    run(statement, [job_id])
    assert name in found()
    [violation, *_] = [v for v in violations() if v.invariant == name]
    assert violation.subject == str(job_id)


def test_two_open_dead_letters_are_found() -> None:
    job_id = failed()
    unguard()
    run("DROP INDEX jobs_dl_one_open_per_job")
    run(
        "INSERT INTO jobs_deadletter (job_id, state, kind, queue, attempt, reason, fingerprint, "
        "expires_at) SELECT job_id, state, kind, queue, attempt, reason, fingerprint, expires_at "
        "FROM jobs_deadletter WHERE job_id = %s",
        [job_id],
    )
    assert "dead_letter_open_means_failed" in found()


@pytest.mark.parametrize("name", FLOW_PLANTS)
def test_what_is_planted_in_the_tables_of_flow_control_is_found(name: str) -> None:
    make, statement, words = FLOW_PLANTS[name]
    job_id = make()
    assert name not in found()
    unguard()
    run(statement, [job_id])
    assert [str(v) for v in violations() if v.invariant == name and words in str(v)]


@pytest.mark.parametrize("name", EVENT_PLANTS)
def test_what_is_planted_in_the_tables_of_events_is_found(name: str) -> None:
    make, statement, words = EVENT_PLANTS[name]
    number = make()
    assert name not in found()
    run("ALTER TABLE jobs_feed DISABLE TRIGGER jobs_feed_fixed")
    run(statement, [number])
    assert [str(v) for v in violations() if v.invariant == name and words in str(v)]


@pytest.mark.parametrize("name", BULK_PLANTS)
def test_what_is_planted_in_the_tables_of_bulk_operations_is_found(name: str) -> None:
    make, statement, words = BULK_PLANTS[name]
    number = make()
    assert name not in found()
    run(statement, [number])
    assert [str(v) for v in violations() if v.invariant == name and words in str(v)]


def test_every_query_has_a_plant() -> None:
    planted = {
        *PLANTS,
        *FLOW_PLANTS,
        *EVENT_PLANTS,
        *BULK_PLANTS,
        *STUCK,
        "schema_complete",
        "isolation_read_committed",
    }
    assert planted == {invariant.name for invariant in EVERY}
    assert set(GUARDED) <= set(tables())
