"""Every contradiction that can be planted, by the invariant it violates."""

# Every piece of SQL here is put together from constants of this file.
# ruff: noqa: S608

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.test import override_settings

import jobs
from jobs.engine import leases, outbox
from jobs.engine import webhooks as telling
from jobs.ids import uuid7
from jobs.models import Outbox
from jobs.operate import bulk, webhooks
from jobs.operate import outbox as desk
from jobs.testing import run_jobs
from tests.operate.doctor.rows import (
    blocked,
    failed,
    holding,
    member,
    replayed,
    run,
    running,
    succeeded,
    tagged,
)
from tests.privacy import vault


def twins() -> UUID:
    running()
    return running()


PLANTS: dict[str, tuple[Any, str]] = {
    "running_has_owner": (running, "UPDATE jobs_job SET owner = NULL WHERE id = %s"),
    "running_has_lease": (
        running,
        "DELETE FROM jobs_lease WHERE owner = (SELECT owner FROM jobs_job WHERE id = %s)",
    ),
    "running_in_time": (
        running,
        "UPDATE jobs_job SET started_at = started_at - interval '1 day', "
        "run_at = run_at - interval '2 days' WHERE id = %s",
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
    "meters_hold": (
        succeeded,
        "INSERT INTO jobs_meter (name, amount, span, burst, tokens, taken_until, spent, part) "
        "SELECT 'broker', 5, 60, 1, 0, jobs_clock(), '{3,3}', 0 FROM jobs_job WHERE id = %s",
        "broker: 6 taken in 60 s, 5 allowed",
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


def relayed() -> int:
    for _ in range(3):
        jobs.emit("a", {}, key="k")
    assert outbox.relay_once().published
    return jobs.events.feed_head()


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
        made = webhooks.create("https://a.example.com/", tenant="*", by="tester", reason="test")
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


AGO = "jobs_clock() - interval '2 minutes'"
STUCK = {
    "queued_is_taken": f"UPDATE jobs_job SET state = 'queued', queued_at = {AGO}",
    "due_is_dispatched": f"UPDATE jobs_job SET run_at = {AGO}, created_at = {AGO}",
    "expired_is_closed": f"UPDATE jobs_job SET expires_at = {AGO}",
}


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
