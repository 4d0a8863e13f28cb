"""The doctor finds each contradiction that is planted, and nothing on a sound database."""

# Every piece of SQL here is put together from constants of this file.
# ruff: noqa: S608

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import InternalError, connection
from django.test import override_settings

import jobs
from jobs.engine import claims, dispatch, leases, outbox
from jobs.engine import webhooks as telling
from jobs.ids import uuid7
from jobs.models import Outbox
from jobs.operate import bulk, webhooks
from jobs.operate import outbox as desk
from jobs.operate.doctor import EVERY, check, violations
from jobs.operate.invariants import Invariant
from jobs.operate.schema import FUNCTIONS, GUARDED, tables
from jobs.outcomes import Fault, decide
from jobs.testing import run_jobs
from tests.privacy import vault
from tests.specimens.handlers import Fail, Noop

pytestmark = pytest.mark.django_db


def run(statement: str, parameters: list[Any] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or [])


def found() -> set[str]:
    return {violation.invariant for violation in violations()}


def unguard() -> None:
    """Nothing is refused any more: no trigger fires and no CHECK is left (until the rollback)."""
    run("SET CONSTRAINTS ALL IMMEDIATE")
    run("SET LOCAL session_replication_role = replica")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'c' "
            "AND conrelid::regclass::text = ANY (%s)",
            [tables()],
        )
        for table, name in cursor.fetchall():
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")


def claimed(payload: jobs.Payload) -> claims.Claim:
    job = jobs.enqueue(payload)
    run("UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock() WHERE id = %s", [job.id])
    owner = uuid7()
    leases.open_lease(owner, "tester", ["default"], 1)
    [claim] = claims.claim(job.queue, [job.id], owner, "tester")
    return claim


def running() -> UUID:
    return claimed(Noop()).id


def succeeded() -> UUID:
    claim = claimed(Noop())
    claims.settle_successes([claims.Success(claim, "null")], "tester")
    return claim.id


def failed() -> UUID:
    claim = claimed(Fail())
    move = decide("unrecoverable", claim.counters, None)
    ended = claims.Ended(claim.id, claim.token, claim.kind, move, Fault("ValueError", "as told"))
    claims.settle_endings([ended], "tester")
    return claim.id


def holding() -> UUID:
    """A queued job that holds a key for which another one waits."""
    dispatch.know_queues({"default"})
    job = jobs.enqueue(Noop(), exclusive="door")
    assert dispatch.admit("default", 10)
    jobs.enqueue(Noop(), exclusive="door")
    assert not dispatch.admit("default", 10)
    return job.id


def twins() -> UUID:
    running()
    return running()


def blocked() -> UUID:
    return jobs.enqueue(Noop(), after=[jobs.enqueue(Noop(), delay=60).id]).id


def member() -> UUID:
    with jobs.batch("two") as batch:
        batch.add(Noop(), delay=60)
        return batch.add(Noop(), delay=60).id


def replayed() -> UUID:
    job_id = failed()
    jobs.replay(job_id, by="tester")
    return job_id


def tagged() -> UUID:
    return jobs.enqueue(Noop(), tags=["a", "b"], correlation_id="r").id


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


PLANTS: dict[str, tuple[Any, str]] = {
    "running_has_owner": (running, "UPDATE jobs_job SET owner = NULL WHERE id = %s"),
    "running_has_lease": (
        running,
        "DELETE FROM jobs_lease WHERE owner = (SELECT owner FROM jobs_job WHERE id = %s)",
    ),
    "final_has_end": (succeeded, "UPDATE jobs_job SET finished_at = NULL WHERE id = %s"),
    "queued_has_time": (
        succeeded,
        "UPDATE jobs_job SET state = 'queued', queued_at = NULL WHERE id = %s",
    ),
    "claimed_has_token": (succeeded, "UPDATE jobs_job SET token = NULL WHERE id = %s"),
    "counters_fit": (succeeded, "UPDATE jobs_job SET releases = 2 WHERE id = %s"),
    "attempts_numbered": (failed, "UPDATE jobs_attempt SET number = 2 WHERE job_id = %s"),
    "failures_recorded": (failed, "DELETE FROM jobs_attempt WHERE job_id = %s"),
    "attempts_apart": (
        failed,
        "INSERT INTO jobs_attempt (job_id, number, outcome, started_at, ended_at) "
        "SELECT id, 0, 'failed', started_at, finished_at + interval '1 s' FROM jobs_job "
        "WHERE id = %s",
    ),
    "started_in_time": (
        succeeded,
        "UPDATE jobs_job SET run_at = started_at + interval '1 s' WHERE id = %s",
    ),
    "dead_letter_open_means_failed": (
        failed,
        "UPDATE jobs_job SET state = 'succeeded' WHERE id = %s",
    ),
    "failed_has_dead_letter": (failed, "DELETE FROM jobs_deadletter WHERE job_id = %s"),
    "dead_letter_closed_has_time": (
        failed,
        "UPDATE jobs_deadletter SET state = 'discarded' WHERE job_id = %s",
    ),
    "history_legal": (
        succeeded,
        "UPDATE jobs_job SET history = jsonb_set(history, '{0,1}', '\"succeeded\"') WHERE id = %s",
    ),
    "history_chained": (succeeded, "UPDATE jobs_job SET history = history - 1 WHERE id = %s"),
    "history_reaches_now": (failed, "UPDATE jobs_job SET state = 'expired' WHERE id = %s"),
    "history_bounded": (
        succeeded,
        "UPDATE jobs_job SET history = (SELECT jsonb_agg(n) FROM generate_series(1, 65) n) "
        "WHERE id = %s",
    ),
    "found_value_has_job": (tagged, "DELETE FROM jobs_job WHERE id = %s"),
    "tagged_job_is_found": (tagged, "DELETE FROM jobs_search WHERE job_id = %s"),
    "mover_consumed": (succeeded, "UPDATE jobs_job SET moved_by = 'me' WHERE id = %s"),
}


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


FLOW_PLANTS: dict[str, tuple[Any, str, str]] = {
    "slot_has_holder": (
        holding,
        "UPDATE jobs_slot SET job_id = gen_random_uuid() WHERE job_id = %s",
        "holds the key door and is gone",
    ),
    "exclusive_has_slot": (
        holding,
        "DELETE FROM jobs_slot WHERE job_id = %s",
        "queued without its key door",
    ),
    "free_key_is_taken": (
        holding,
        "WITH freed AS (DELETE FROM jobs_slot WHERE job_id = %s) "
        "UPDATE jobs_job SET run_at = run_at - interval '2 minutes' WHERE wait = 2",
        "waits for the key door, which nobody holds",
    ),
    "limits_hold": (
        twins,
        "INSERT INTO jobs_limiter (scope, at_once) SELECT 'kind:' || kind, 1 FROM jobs_job "
        "WHERE id = %s",
        "kind:test.noop: 2 at once, 1 allowed",
    ),
    "open_parents_counted": (
        blocked,
        "UPDATE jobs_job SET open_parents = 2 WHERE id = %s",
        "blocked, open parents 2, open edges 1",
    ),
    "ended_parents_let_go": (
        blocked,
        "DELETE FROM jobs_job WHERE id = (SELECT parent_id FROM jobs_dependency "
        "WHERE child_id = %s)",
        "which is gone",
    ),
    "batch_counts_members": (
        member,
        "UPDATE jobs_job SET state = 'cancelled' WHERE id = %s",
        "counts 0, 0, 0, 0; has 0, 0, 1, 0",
    ),
    "batch_total_is_members": (
        member,
        "UPDATE jobs_job SET batch_id = NULL WHERE id = %s",
        "total 2, members 1; left 2, unfinished 1",
    ),
    "batch_ends_with_members": (
        member,
        "UPDATE jobs_batch SET cancelled = total WHERE id = (SELECT batch_id FROM jobs_job "
        "WHERE id = %s)",
        "sealed, 2 of 2 ended",
    ),
    "one_unfinished_per_line": (
        replayed,
        "UPDATE jobs_job SET state = 'pending', finished_at = NULL WHERE id = %s",
        "has 2 unfinished jobs",
    ),
    "success_has_no_doubt": (
        succeeded,
        "INSERT INTO jobs_effect (job_id, key, state, token, attempt) "
        "SELECT id, 'mail', 'in_doubt', token, attempt FROM jobs_job WHERE id = %s",
        "effect mail is in doubt",
    ),
}


@pytest.mark.parametrize("name", FLOW_PLANTS)
def test_what_is_planted_in_the_tables_of_flow_control_is_found(name: str) -> None:
    make, statement, words = FLOW_PLANTS[name]
    job_id = make()
    assert name not in found()
    unguard()
    run(statement, [job_id])
    assert [str(v) for v in violations() if v.invariant == name and words in str(v)]


def test_the_heir_of_a_paused_key_does_not_alarm() -> None:
    job_id = holding()
    run("UPDATE jobs_job SET state = 'pending', queued_at = NULL, wait = 2 WHERE id = %s", [job_id])
    assert "slot_has_holder" in found()
    run("INSERT INTO jobs_closure (scope, why) VALUES ('key:door', 'paused')")
    assert "slot_has_holder" not in found()


def test_a_batch_whose_members_were_deleted_after_its_end_is_sound() -> None:
    with jobs.batch("two") as batch:
        batch.add(Noop())
    run_jobs()
    run("DELETE FROM jobs_job WHERE batch_id = %s", [batch.id])
    assert violations() == []


def test_a_batch_that_lost_members_and_was_opened_again_is_sound() -> None:
    with jobs.batch("two") as batch:
        batch.add(Noop())
        batch.add(Fail(), max_attempts=1)
    run_jobs()
    run("DELETE FROM jobs_job WHERE batch_id = %s AND state = 'succeeded'", [batch.id])
    [job] = jobs.Job.objects.filter(batch_id=batch.id)
    jobs.retry(job.id, by="tester")
    assert violations() == []
    run_jobs()
    assert violations() == []


def relayed() -> int:
    for _ in range(3):
        jobs.emit("a", {}, key="k")
    assert outbox.relay_once().published
    return jobs.feed_head()


def parked() -> int:
    """Something that waits behind a parked event."""
    for _ in range(2):
        jobs.emit("a", {}, key="k")
    first, second = Outbox.objects.order_by("id")
    desk.park(first.id, by="tester", reason="test")
    outbox.relay_once()
    return int(second.id)


def written() -> int:
    leases.open_lease(uuid7(), "tester", ["default"], 1)
    jobs.emit("a", {})
    return int(Outbox.objects.get().id)


def delivering() -> UUID:
    """A delivery whose job waits."""
    with override_settings(JOBS={**vault.KEYS, "WEBHOOKS": True}):
        telling.register()
        made = webhooks.create("https://a.example.com/", tenant="", by="tester", reason="test")
        found = webhooks.ping(made.id, by="tester", reason="test")
        telling.unregister()
    return found


EVENT_PLANTS: dict[str, tuple[Any, str, str]] = {
    "feed_has_no_gap": (
        relayed,
        "UPDATE jobs_feed SET position = position + 1 WHERE position = %s",
        "comes after",
    ),
    "feed_ends_at_head": (
        relayed,
        "UPDATE jobs_feed_head SET position = position + 1 WHERE position = %s",
        "floor 0, head ",
    ),
    "event_is_relayed": (
        written,
        "UPDATE jobs_outbox SET occurred_at = jobs_clock() - interval '2 minutes' WHERE id = %s",
        "written at",
    ),
    "held_event_has_reason": (
        parked,
        "WITH gone AS (UPDATE jobs_outbox SET occurred_at = jobs_clock() - interval '2 minutes' "
        "WHERE id = %s) UPDATE jobs_outbox SET state = 'discarded', closed_at = jobs_clock() "
        "WHERE state = 'parked'",
        "waits for nothing",
    ),
    "waiting_delivery_has_job": (
        delivering,
        "UPDATE jobs_webhookdelivery SET job_id = gen_random_uuid() WHERE id = %s",
        "its job is not there",
    ),
}


@pytest.mark.parametrize("name", EVENT_PLANTS)
def test_what_is_planted_in_the_tables_of_events_is_found(name: str) -> None:
    make, statement, words = EVENT_PLANTS[name]
    number = make()
    assert name not in found()
    run("ALTER TABLE jobs_feed DISABLE TRIGGER jobs_feed_fixed")
    run(statement, [number])
    assert [str(v) for v in violations() if v.invariant == name and words in str(v)]


AGO = "jobs_clock() - interval '2 minutes'"
STUCK = {
    "queued_is_taken": f"UPDATE jobs_job SET state = 'queued', queued_at = {AGO}",
    "due_is_dispatched": f"UPDATE jobs_job SET run_at = {AGO}, created_at = {AGO}",
    "expired_is_closed": f"UPDATE jobs_job SET expires_at = {AGO}",
}


@pytest.mark.parametrize("name", STUCK)
def test_what_is_stuck_is_found_while_an_executor_is_free(name: str) -> None:
    jobs.enqueue(Noop())
    run(STUCK[name])
    assert name not in found()
    leases.open_lease(uuid7(), "tester", ["default"], 1)
    assert name in found()


@pytest.mark.parametrize("name", ["queued_is_taken", "due_is_dispatched"])
def test_a_busy_fleet_is_not_stuck(name: str) -> None:
    running()
    jobs.enqueue(Noop())
    run(f"{STUCK[name]} WHERE state = 'pending'")
    assert name not in found()


@pytest.mark.parametrize("name", ["queued_is_taken", "due_is_dispatched"])
def test_what_is_closed_is_not_stuck(name: str) -> None:
    jobs.enqueue(Noop())
    run(STUCK[name])
    leases.open_lease(uuid7(), "tester", ["default"], 1)
    assert name in found()
    run("INSERT INTO jobs_closure (scope, why) VALUES ('queue:default', 'paused')")
    assert name not in found()


@pytest.mark.parametrize(
    "wait",
    [
        "UPDATE jobs_job SET wait = 2",
        "INSERT INTO jobs_limiter (scope) VALUES ('kind:test.noop')",
    ],
)
def test_what_waits_for_its_turn_is_not_stuck(wait: str) -> None:
    jobs.enqueue(Noop())
    run(STUCK["due_is_dispatched"])
    leases.open_lease(uuid7(), "tester", ["default"], 1)
    assert "due_is_dispatched" in found()
    run(wait)
    assert "due_is_dispatched" not in found()


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


def a_bulk() -> Any:
    job_id = failed()
    made = bulk.start("retry", ids=[job_id], by="tester", reason="test")
    run_jobs()
    return made.id


def an_unfinished_bulk() -> Any:
    made = bulk.start("retry", ids=[failed()], by="tester", reason="test")
    run("UPDATE jobs_bulk SET created_at = jobs_clock() - interval '2 minutes'")
    return made.id


BULK_PLANTS: dict[str, tuple[Any, str, str]] = {
    "bulk_counts_its_items": (
        a_bulk,
        "UPDATE jobs_bulk SET done = 0 WHERE id = %s",
        "counts 0 done, 0 skipped, 0 failed of 1; items: 1, 0, 0 of 1",
    ),
    "bulk_done_has_none_waiting": (
        a_bulk,
        "UPDATE jobs_bulkitem SET state = 'waiting', decided_at = NULL WHERE bulk_id = %s",
        "waits",
    ),
    "bulk_is_carried": (
        an_unfinished_bulk,
        "UPDATE jobs_job SET state = 'cancelled', finished_at = jobs_clock() "
        "WHERE kind = 'jobs.bulk' AND unique_key = %s::text",
        "without a job",
    ),
}


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


def test_the_doctor_knows_every_function_of_the_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT proname FROM pg_proc WHERE starts_with(proname, 'jobs_')")
        assert {name for (name,) in cursor.fetchall()} == set(FUNCTIONS)
