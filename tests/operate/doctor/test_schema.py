"""The doctor looks at the database itself too, and only reads."""

from __future__ import annotations

import pytest
from django.db import InternalError, connection

from jobs.operate.doctor import SCHEMA, check, violations
from jobs.operate.functions import shipped
from jobs.operate.invariants import Invariant
from tests.jobs.factories import sql
from tests.operate.doctor.rows import found, run

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("statement", "subject"),
    [
        ("DROP TRIGGER jobs_job_guard ON jobs_job", "jobs_job_guard"),
        (
            "ALTER TABLE jobs_deadletter DISABLE TRIGGER jobs_deadletter_birth",
            "jobs_deadletter_birth",
        ),
        ("ALTER TABLE jobs_job DROP CONSTRAINT jobs_job_counters", "jobs_job_counters"),
        ("DROP INDEX jobs_job_lane", "jobs_job_lane"),
        ("DROP TRIGGER jobs_outbox_death ON jobs_outbox", "jobs_outbox_death"),
        ("DROP TRIGGER jobs_job_tell ON jobs_job", "jobs_job_tell"),
        ("DROP TRIGGER jobs_job_close_delivery ON jobs_job", "jobs_job_close_delivery"),
        ("ALTER TABLE jobs_feed DISABLE TRIGGER jobs_feed_fixed", "jobs_feed_fixed"),
        ("DROP INDEX jobs_outbox_stuck", "jobs_outbox_stuck"),
        ("DROP FUNCTION jobs_relay(int)", "jobs_relay"),
        ("DROP INDEX jobs_job_exclusive", "jobs_job_exclusive"),
        ("DROP INDEX jobs_job_unique_unfinished", "jobs_job_unique_unfinished"),
        ("DROP INDEX jobs_effect_doubt", "jobs_effect_doubt"),
        ("ALTER TABLE jobs_batch DROP CONSTRAINT jobs_batch_counters", "jobs_batch_counters"),
        ("DROP FUNCTION jobs_follow(uuid[])", "jobs_follow"),
        ("DROP INDEX jobs_dl_one_open_per_job", "jobs_dl_one_open_per_job"),
        ("DROP FUNCTION jobs_dispatch(text, int, int, jsonb)", "jobs_dispatch"),
        (
            "DROP TRIGGER jobs_job_death ON jobs_job; CREATE TRIGGER jobs_job_death BEFORE DELETE "
            "ON jobs_job FOR EACH ROW WHEN (OLD.state <> 'failed') EXECUTE FUNCTION jobs_refuse()",
            "jobs_job_death",
        ),
        (
            "DROP TRIGGER jobs_job_guard ON jobs_job; CREATE TRIGGER jobs_job_guard BEFORE UPDATE "
            "ON jobs_job FOR EACH ROW EXECUTE FUNCTION jobs_guard('succeeded>pending')",
            "jobs_job_guard",
        ),
    ],
)
def test_what_the_database_lacks_is_found(statement: str, subject: str) -> None:
    run(statement)
    assert ("schema_complete", subject) in {(v.invariant, v.subject) for v in violations()}


@pytest.mark.django_db(transaction=True)
def test_another_isolation_level_is_found() -> None:
    run("SET default_transaction_isolation = 'repeatable read'")
    try:
        assert found() == {"isolation_read_committed"}
    finally:
        run("RESET default_transaction_isolation")


@pytest.mark.django_db(transaction=True)
def test_the_doctor_only_reads() -> None:
    writes = Invariant("x", "x", "SELECT nextval('jobs_attempt_id_seq'), ''", "", "")
    with pytest.raises(InternalError, match="read-only transaction"):
        check(writes)


def test_the_doctor_knows_every_function_of_the_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT proname, pronargs, prosrc FROM pg_proc WHERE starts_with(proname, 'jobs_')"
        )
        found = {(name, arguments): body for name, arguments, body in cursor.fetchall()}
    assert found == shipped()
    assert len(found) > 35 and all(found.values())


@pytest.mark.parametrize(("name", "arguments"), sorted(shipped()))
def test_a_function_that_was_edited_by_hand_is_found(name: str, arguments: int) -> None:
    [(definition,)] = sql(
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = %s AND pronargs = %s",
        [name, arguments],
    )
    assert check(SCHEMA) == []
    head, end, rest = definition.rpartition("$function$")
    run(f"{head} /* quicker */{end}{rest}".replace("%", "%%"))
    assert [(v.subject, v.detail) for v in check(SCHEMA)] == [
        (name, "the function is not the one that this version ships")
    ]
