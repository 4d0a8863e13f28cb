"""Changing what waits: edits, run now, other budgets, patched replays, limits and workers."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import jobs
from jobs.engine import admission, roll
from jobs.errors import Changed, InvalidOption, KeyTaken, NotAllowed
from jobs.models import Audit, Job, Limiter
from jobs.operate import audit, batches, blackouts, edit, queues, schedules, workers
from jobs.operate.pauses import STOPPED_BY_PEOPLE, pause
from jobs.operate.replay import replay
from jobs.operate.retry import retry
from jobs.principals import ALL, Principal, Scope
from jobs.testing import freeze_clock
from tests.jobs.factories import a_claim, a_job, ended, row, settle, sql, state
from tests.specimens.handlers import Echo, Noop

pytestmark = pytest.mark.django_db
WHO: dict[str, Any] = {"by": "ada", "reason": "because"}
NOON = datetime(2040, 1, 2, 12, tzinfo=UTC)


def failed(payload: jobs.Payload | None = None, **options: Any) -> Any:
    claim = a_claim(payload or Noop(), **options)
    settle(ended(claim, "unrecoverable"))
    return claim.id


# ---- edit and run now


@pytest.mark.parametrize("born", ["pending", "queued", "blocked"])
def test_what_has_not_begun_is_edited(born: str) -> None:
    with freeze_clock(NOON):
        job = a_job(born)
        later = NOON + timedelta(hours=1)
        told = edit.edit(
            job, priority=9, queue="other", run_at=later, max_attempts=3, tags=["a"], **WHO
        )
        found = row(job)
    assert (found.priority, found.queue, found.max_attempts, found.tags) == (9, "other", 3, ["a"])
    assert (found.run_at, found.wait, found.state) == (
        later,
        1,
        "pending" if born == "queued" else born,
    )
    assert found.rank == int(later.timestamp() * 1000) - 9 * 3000
    assert told == edit.version(job)
    assert Audit.objects.get().detail["after"]["priority"] == 9


@pytest.mark.parametrize("begun", ["running", "succeeded", "failed", "cancelled"])
def test_what_has_begun_is_not_edited(begun: str) -> None:
    job = a_job(begun)
    with pytest.raises(NotAllowed, match="it must be blocked or pending or queued"):
        edit.edit(job, priority=1, **WHO)
    assert row(job).priority == 0


def test_an_edit_of_what_somebody_has_changed_meanwhile_does_nothing() -> None:
    job = a_job()
    seen = edit.version(job)
    edit.edit(job, priority=1, version=seen, **WHO)
    with pytest.raises(Changed):
        edit.edit(job, priority=2, version=seen, **WHO)
    assert row(job).priority == 1


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({}, "changes"),
        ({"priority": 101}, "priority"),
        ({"queue": "a b"}, "queue"),
        ({"run_at": datetime(2040, 1, 1)}, "run_at"),
        ({"run_at": datetime(9999, 1, 1, tzinfo=UTC)}, "run_at"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"tags": ["x"] * 21}, "tags"),
    ],
)
def test_a_senseless_edit_is_refused(changes: dict[str, Any], option: str) -> None:
    job = a_job()
    with pytest.raises(InvalidOption) as caught:
        edit.edit(job, **changes, **WHO)
    assert caught.value.option == option


def test_a_job_is_not_moved_to_a_queue_out_of_sight() -> None:
    job = a_job()
    who = Principal("ana", "api", ALL, Scope(queues=frozenset({"default"})))
    with pytest.raises(InvalidOption, match="no queue"):
        edit.edit(job, by=who, queue="hidden")
    assert row(job).queue == "default"


def test_a_job_that_waits_for_its_time_is_due_now() -> None:
    with freeze_clock(NOON):
        job = a_job(delay=600, priority=2)
        edit.run_now(job, **WHO)
        found = row(job)
    assert (found.run_at, found.wait) == (NOON, 0)
    assert found.rank == int(NOON.timestamp() * 1000) - 6000
    with pytest.raises(NotAllowed, match="it must be pending"):
        edit.run_now(failed(), **WHO)


# ---- retry and replay


def test_a_budget_is_raised_or_reset_and_a_retry_may_wait() -> None:
    with freeze_clock(NOON):
        first, second = failed(max_attempts=3), failed(max_attempts=3)
        sql("UPDATE jobs_job SET failures = 1")
        retry(first, attempts=5, **WHO)
        retry(second, reset=True, at=NOON + timedelta(hours=1), **WHO)
    assert (row(first).max_attempts, row(first).failures) == (6, 1)
    assert (row(second).max_attempts, row(second).failures) == (3, 0)
    assert (row(second).run_at, row(second).wait) == (NOON + timedelta(hours=1), 1)
    with pytest.raises(InvalidOption, match="attempts"):
        retry(first, attempts=1, reset=True, **WHO)


def test_a_replay_carries_a_patched_payload() -> None:
    old = failed(Echo(text="a"))
    new = replay(old, payload_patch={"text": "b"}, **WHO)
    assert (row(new).payload, row(old).payload) == ({"text": "b"}, {"text": "a"})
    assert (row(new).replay_of, row(old).replayed_by) == (old, new)


@pytest.mark.parametrize("patch", [{"text": None}, {"text": 7}, {"more": 1}, [], {"text": {1, 2}}])
def test_a_patch_that_fits_no_payload_is_refused(patch: Any) -> None:
    old = failed(Echo(text="a"))
    with pytest.raises(jobs.JobsError):
        replay(old, payload_patch=patch, **WHO)
    assert row(old).replayed_by is None and Job.objects.count() == 1


def test_a_replay_of_its_own_line_runs_beside_the_other() -> None:
    old = failed(unique=jobs.Unique("k"))
    first = replay(old, **WHO)
    with pytest.raises((NotAllowed, KeyTaken)):
        replay(old, **WHO)
    second = replay(old, same_lineage=False, **WHO)
    assert row(second).unique_key is None and row(second).lineage is None
    assert (state(first), state(second)) == ("pending", "pending")


# ---- pauses that stop what runs


def test_a_pause_may_stop_what_runs_and_it_waits_unharmed() -> None:
    claim = a_claim(Noop(), max_attempts=1)
    pause("queue:default", running="stop", **WHO)
    assert row(claim.id).preempted_by == STOPPED_BY_PEOPLE
    settle(ended(claim, "preempted"))
    found = row(claim.id)
    assert (found.state, found.failures, found.preempted_by) == ("pending", 0, None)
    assert found.preempt_asked_at is None
    other = a_claim_elsewhere()
    assert row(other).preempted_by is None


def a_claim_elsewhere() -> Any:
    job = a_job("running", queue="other")
    pause("queue:default", running="stop", **WHO)
    return job


# ---- limits


def test_an_override_ends_by_itself_and_gives_back_what_was() -> None:
    with freeze_clock(NOON) as clock:
        queues.set_limit("queue:default", at_once=5, rate="10/s", **WHO)
        queues.set_limit("queue:default", at_once=1, until=NOON + timedelta(hours=1), **WHO)
        queues.set_limit("queue:default", at_once=2, until=NOON + timedelta(hours=2), **WHO)
        admission.sync_limits()
        assert limit().at_once == 2 and admission.end_overrides() == []
        clock.tick(timedelta(hours=2))
        assert admission.end_overrides() == ["queue:default"]
    found = limit()
    assert (found.at_once, found.per_second, found.is_declared) == (5, 10.0, False)
    queues.remove_limit("queue:default", **WHO)
    assert not Limiter.objects.filter(scope="queue:default").exists()


def limit() -> Limiter:
    return Limiter.objects.get(scope="queue:default")


def test_what_code_declares_holds_again(settings: Any) -> None:
    settings.JOBS = {"QUEUES": {"default": jobs.Limit(at_once=7)}}
    admission.sync_limits()
    queues.set_limit("queue:default", at_once=1, **WHO)
    admission.sync_limits()
    assert limit().at_once == 1
    queues.remove_limit("queue:default", **WHO)
    assert (limit().at_once, limit().is_declared) == (7, True)
    with freeze_clock(NOON):
        queues.set_limit("queue:default", at_once=2, until=NOON + timedelta(hours=1), **WHO)
        queues.end_override("queue:default", **WHO)
    assert (limit().at_once, limit().is_declared) == (7, True)


@pytest.mark.parametrize(
    ("scope", "how", "option"),
    [
        ("tenant:a", {"at_once": 1}, "scope"),
        ("nonsense", {"at_once": 1}, "scope"),
        ("queue:a", {"at_once": 0}, "at_once"),
        ("queue:a", {"rate": "often"}, "rate"),
        ("queue:a", {"burst": 2.0}, "burst"),
        ("queue:a", {"at_once": 1, "until": datetime(2001, 1, 1, tzinfo=UTC)}, "until"),
    ],
)
def test_a_senseless_limit_is_refused(scope: str, how: dict[str, Any], option: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        queues.set_limit(scope, **how, **WHO)
    assert caught.value.option == option and not Limiter.objects.exists()


# ---- workers


def test_a_worker_is_seen_until_it_falls_silent() -> None:
    with freeze_clock(NOON) as clock:
        roll.announce("w1", os.getpid(), ["default"], 4)
        assert workers.worker("w1", by="ada").state == "idle"
        workers.drain("w1", **WHO)
        assert (roll.asked("w1"), workers.worker("w1", by="ada").state) == ("drain", "draining")
        workers.stop("w1", **WHO)
        workers.drain("w1", **WHO)
        assert roll.asked("w1") == "stop"
        roll.announce("w1", os.getpid() + 1, ["default"], 4)
        assert roll.asked("w1") == ""
        clock.tick(timedelta(minutes=1))
        assert workers.worker("w1", by="ada").state == "lost"
        with pytest.raises(NotAllowed, match="it must be busy or idle"):
            workers.drain("w1", **WHO)
        clock.tick(timedelta(days=2))
        assert roll.forget_lost() == 1


def test_a_worker_shows_the_jobs_that_its_reader_may_see() -> None:
    claim = a_claim(Noop(), tenant="acme")
    sql("UPDATE jobs_lease SET worker = 'w1' WHERE owner = %s", [row(claim.id).owner])
    roll.announce("w1", os.getpid(), ["default"], 4)
    [seen] = workers.workers(by="ada")
    assert (seen.state, [job.id for job in seen.jobs]) == ("busy", [claim.id])
    assert seen.memory > 1
    other = Principal("o", "api", ALL, Scope(tenants=frozenset({"other"})))
    assert workers.worker("w1", by=other).jobs == ()
    elsewhere = Principal("o", "api", ALL, Scope(queues=frozenset({"other"})))
    assert workers.workers(by=elsewhere) == []


# ---- schedules, blackouts, batches


def test_a_schedule_is_edited_and_made_up_for() -> None:
    with freeze_clock(NOON):
        schedules.create("tidy", Noop(), cron="0 * * * *", **WHO)
        start = NOON - timedelta(hours=3)
        assert len(schedules.backfill_preview("tidy", start, NOON)) == 4
        made = schedules.backfill("tidy", start, NOON, **WHO)
        assert [row(job).slot_at for job in made] == [
            start + timedelta(hours=hour) for hour in range(4)
        ]
        assert schedules.backfill("tidy", start, NOON, **WHO) == []
        changed = schedules.edit("tidy", cron="30 1 * * *", options={"priority": 3}, **WHO)
        assert (changed.cron, changed.options) == ("30 1 * * *", {"priority": 3})
        assert changed.next_slot == datetime(2040, 1, 3, 1, 30, tzinfo=UTC)
        changed = schedules.edit("tidy", interval=600, overlap="skip", **WHO)
        assert (changed.cron, changed.interval, changed.overlap) == ("", 600.0, "skip")
        schedules.edit("tidy", cron="* * * * *", **WHO)
        for begin, end in ((NOON - timedelta(days=60), NOON), (NOON, NOON + timedelta(hours=1))):
            with pytest.raises(InvalidOption, match="end"):
                schedules.backfill("tidy", begin, end, **WHO)


def test_what_a_window_holds_back_in_a_week() -> None:
    with freeze_clock(NOON):
        schedules.create("tidy", Noop(), cron="0 * * * *", **WHO)
        for hours in (1, 13, 24 * 8):
            a_job(delay=hours * 3600)
        number = blackouts.create(
            "queue:default",
            (NOON + timedelta(hours=13)).time(),
            (NOON + timedelta(hours=15)).time(),
            **WHO,
        ).pk
        seen = blackouts.impact_of(number)
    assert (seen.waiting.held, seen.slots, len(seen.spans)) == (1, {"tidy": 14}, 7)


def test_a_note_on_a_batch() -> None:
    made = jobs.batch("b")
    batches.note(made.id, "call them", by="ada")
    assert sql("SELECT note FROM jobs_batch") == [("call them",)]
    with pytest.raises(InvalidOption, match="text"):
        batches.note(made.id, "x" * 501, by="ada")


# ---- reading the audit


def test_the_audit_is_read_by_pages_and_filters() -> None:
    ids = [a_job(tenant=tenant) for tenant in ("acme", "acme", "other")]
    for job in ids:
        jobs.cancel(job, by="ada")
    jobs.enqueue(Noop())
    first = audit.entries(by="x", limit=2)
    assert len(first.rows) == 2 and first.after is not None
    second = audit.entries(by="x", limit=2, after=first.after)
    assert len(second.rows) == 1 and second.after is None
    assert [r.target_id for r in (*first.rows, *second.rows)] == [str(j) for j in reversed(ids)]
    narrow = audit.entries(
        by="x", actor="ada", action="job.", target_kind="job", target_id=str(ids[0])
    )
    assert [r.target_id for r in narrow.rows] == [str(ids[0])]
    assert audit.entries(by="x", outcome="denied").rows == []
    acme = Principal("a", "api", frozenset({"view_audit"}), Scope(tenants=frozenset({"acme"})))
    assert {r.tenant for r in audit.entries(by=acme).rows} == {"acme"}
    with pytest.raises(jobs.errors.Denied):
        audit.entries(by=Principal("a", "api", frozenset()))


@pytest.mark.parametrize(
    "wrong",
    [{"limit": 0}, {"outcome": "odd"}, {"target_id": "1"}, {"actor": "a\x00"}, {"since": 1}],
)
def test_a_senseless_question_to_the_audit_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        audit.entries(by="x", **wrong)
