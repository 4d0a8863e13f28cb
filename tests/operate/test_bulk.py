"""Bulk operations: looked at first, done once per job, stopped when asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection

import jobs
from jobs import testing
from jobs.errors import (
    Denied,
    InvalidOption,
    NotAllowed,
    QueryError,
    TooSlow,
    UnknownJob,
    UnknownTarget,
)
from jobs.models import Audit, Bulk, BulkItem
from jobs.operate import batchacts, bulk, bulkrun, bulkscan, pauses, ways
from jobs.operate.bulk import Care
from jobs.principals import Principal, Scope
from tests.jobs.factories import a_claim, a_job, ended, row, settle, state
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
WHO: dict[str, Any] = {"by": "ann", "reason": "the provider is back"}
FAILED = "state:failed kind:test.noop"


def ann(*permissions: str, scope: Scope | None = None) -> Principal:
    wanted = frozenset(permissions or ("run_bulk", "retry_job", "cancel_job"))
    return Principal("ann", "api", wanted, scope or Scope())


def dead(count: int = 1, **options: Any) -> list[UUID]:
    """Failed jobs with open dead letters, oldest first."""
    made = []
    for _ in range(count):
        claim = a_claim(**options)
        settle(ended(claim, "unrecoverable"))
        made.append(claim.id)
    return made


def run(operation: Bulk, steps: int = 1000) -> Bulk:
    """The operation after so many steps, or at its end."""
    for _ in range(steps):
        if bulkrun.step(operation.id) is None:
            break
    operation.refresh_from_db()
    return operation


def outcomes(operation: Bulk) -> dict[UUID, tuple[str, str]]:
    found = BulkItem.objects.filter(bulk=operation)
    return {item.job_id: (item.state, item.detail) for item in found}


# ---- what is done


def test_a_query_is_retried_to_its_last_job_by_a_job_of_the_platform() -> None:
    failed, fine = dead(3), a_job("succeeded")
    made = bulk.start("retry", query=FAILED, **WHO)
    assert made.state == "gathering"
    testing.run_jobs()
    made.refresh_from_db()
    assert (made.state, made.total, made.done, made.skipped) == ("done", 3, 3, 0)
    assert [state(job_id) for job_id in (*failed, fine)] == ["succeeded"] * 4
    assert row(failed[0]).history[-4][3:] == ["ann", "the provider is back"]


@pytest.mark.parametrize(
    ("action", "before", "options", "after"),
    [
        ("retry", "failed", {"attempts": 2}, "pending"),
        ("replay", "succeeded", {}, "succeeded"),
        ("cancel", "pending", {}, "cancelled"),
        ("cancel", "running", {"force": True}, "running"),
        ("edit", "pending", {"priority": 7, "queue": "slow"}, "pending"),
    ],
)
def test_each_action_does_what_it_says(
    action: str, before: str, options: dict[str, Any], after: str
) -> None:
    job_id = a_job(before)
    made = run(bulk.start(action, ids=[job_id], **WHO, **options))
    assert (made.state, made.done) == ("done", 1), outcomes(made)
    job = row(job_id)
    assert job.state == after
    if action == "edit":
        assert (job.priority, job.queue) == (7, "slow")
    if action == "replay":
        assert row(BulkItem.objects.get().result).replay_of == job_id  # type: ignore[arg-type]
    if before == "running":
        assert job.cancel_forced and job.cancel_by == "ann"


def test_what_is_scheduled_runs_now() -> None:
    later = a_job(delay=3600)
    due = a_job()
    made = run(bulk.start("run_now", ids=[later, due], **WHO))
    assert outcomes(made) == {later: ("done", ""), due: ("skipped", "is due already")}
    assert row(later).wait == 0


@pytest.mark.parametrize(
    ("action", "ends"),
    [("retry_letter", "retried"), ("replay_letter", "replayed"), ("discard_letter", "discarded")],
)
def test_dead_letters_are_decided_upon(action: str, ends: str) -> None:
    [job_id] = dead()
    letter = jobs.types.DeadLetter.objects.get()
    made = run(bulk.start(action, ids=[letter.id], **WHO))
    letter.refresh_from_db()
    assert (made.done, letter.state) == (1, ends)
    again = run(bulk.start(action, ids=[letter.id], **WHO))
    assert outcomes(again)[job_id] == ("skipped", "has no open dead letter")


def test_jobs_are_taken_in_the_order_of_their_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = dead(4)
    monkeypatch.setattr(bulkrun, "CHUNK", 1)
    made = bulk.start("retry", ids=failed[::-1], **WHO)
    for count in range(1, 5):
        run(made, 1)
        done = {i for i, (word, _) in outcomes(made).items() if word == "done"}
        assert done == set(failed[:count])


def test_what_cannot_be_done_is_passed_by_and_says_why() -> None:
    good, fine = dead()[0], a_job("succeeded")
    made = run(bulk.start("retry", ids=[good, fine], **WHO))
    assert outcomes(made) == {good: ("done", ""), fine: ("skipped", "is succeeded")}
    assert (made.done, made.skipped, made.failed, made.total) == (1, 1, 0, 2)


def test_a_broken_item_fails_alone() -> None:
    first, second = dead(2)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$BEGIN IF NEW.id = '{first}' THEN PERFORM 1/0; END IF; RETURN NEW; END$$; "
            "CREATE TRIGGER broken BEFORE UPDATE ON jobs_job FOR EACH ROW EXECUTE FUNCTION broken()"
        )
    made = run(bulk.start("retry", ids=[first, second], **WHO))
    assert {i: word for i, (word, _) in outcomes(made).items()} == {first: "failed", second: "done"}
    assert "division by zero" in outcomes(made)[first][1]
    assert (state(first), state(second)) == ("failed", "pending")


def test_jobs_made_later_are_out_of_bounds() -> None:
    before = dead()
    made = bulk.start("retry", query=FAILED, **WHO)
    Bulk.objects.update(before=row(before[0]).created_at)
    later = dead()
    run(made)
    assert set(outcomes(made)) == set(before)
    assert state(later[0]) == "failed"


def test_a_long_query_is_walked_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = dead(7)
    monkeypatch.setattr(bulkrun, "PAGE", 2)
    made = run(bulk.start("retry", query=FAILED, **WHO))
    assert (set(outcomes(made)), made.done) == (set(failed), 7)


def test_its_own_job_is_left_alone() -> None:
    bulk.start("retry", ids=dead(), **WHO)
    made = run(bulk.start("cancel", query="state:pending", **WHO))
    assert [word for word, _ in outcomes(made).values()] == ["skipped"]


# ---- looking first


def test_a_preview_counts_and_does_nothing() -> None:
    failed = dead(7)
    seen = bulk.preview("retry", query="kind:test.noop", by="ann")
    a_job("succeeded")
    seen = bulk.preview("retry", query="kind:test.noop", by="ann")
    assert (seen.eligible, seen.skipped, seen.kinds) == (7, {"is succeeded": 1}, {"test.noop": 7})
    assert [found.id for found in seen.sample] == failed[:5]
    assert not seen.is_cut and not Bulk.objects.exists()
    assert bulk.preview("retry", ids=failed[:2], by="ann").eligible == 2


def test_a_preview_says_where_it_stopped_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    dead(3)
    monkeypatch.setattr(bulk, "LOOK_LIMIT", 2)
    assert bulk.preview("retry", query=FAILED, by="ann").is_cut


def test_a_preview_without_the_time_says_among_how_many_it_looked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_slow(selection: bulkscan.Selection, limit: int) -> bulkscan.Seen:
        raise TooSlow(bulkscan.QUICK)

    failed = dead(7)
    monkeypatch.setattr(bulkscan.Selection, "_whole", too_slow)
    monkeypatch.setattr(ways, "FIRST_WALK", 3)
    monkeypatch.setattr(bulkscan, "BUDGET", 0)
    seen = bulk.preview("retry", query=FAILED, by="ann")
    assert (seen.eligible, seen.looked, seen.is_cut) == (3, 3, True)
    assert [found.id for found in seen.sample] == failed[-3:]
    # What is looked at in portions, up to the end, is everything.
    monkeypatch.setattr(bulkscan, "BUDGET", 1000)
    monkeypatch.setattr(ways, "FIRST_STREAM", 1)
    seen = bulk.preview("retry", query=FAILED, by="ann")
    assert (seen.eligible, seen.looked, seen.is_cut) == (7, None, False)
    assert [found.id for found in seen.sample] == failed[:5]


def test_a_person_confirms_what_was_looked_at(set_clock: Callable[[Any], None]) -> None:
    dead()
    with pytest.raises(InvalidOption, match="token"):
        bulk.start("retry", query=FAILED, by=ann(), reason="x")
    token = bulk.preview("retry", query=FAILED, by=ann()).token
    made = bulk.start("retry", query=FAILED, by=ann(), reason="x", token=token)
    assert made.before <= made.created_at
    wrong: list[dict[str, Any]] = [
        {"query": "state:failed"},
        {"by": Principal("bob", "api")},
        {"by": ann(scope=Scope(frozenset({"acme"})))},
        {"token": token[:-2] + "xx"},
        {"attempts": 3},
    ]
    for change in wrong:
        call = {"query": FAILED, "by": ann(), "token": token, **change}
        with pytest.raises(InvalidOption, match="token"):
            bulk.start("retry", reason="x", **call)
    set_clock(made.created_at + timedelta(minutes=16))
    with pytest.raises(InvalidOption, match="too old"):
        bulk.start("retry", query=FAILED, by=ann(), reason="x", token=token)


@pytest.fixture
def set_clock() -> Any:
    def set_to(moment: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('jobs.now', %s, false)", [moment.isoformat() if moment else ""]
            )

    yield set_to
    set_to(None)


# ---- who may


@pytest.mark.parametrize("held", [("run_bulk",), ("retry_job",)])
def test_it_needs_both_permissions(held: tuple[str, ...]) -> None:
    [job_id] = dead()
    for call in (bulk.preview, partial(bulk.start, reason="x")):
        with pytest.raises(Denied):
            call("retry", ids=[job_id], by=ann(*held))
    assert Audit.objects.filter(outcome="denied").count() == 2
    assert not Bulk.objects.exists() and state(job_id) == "failed"


def test_another_tenants_jobs_do_not_exist() -> None:
    [mine], [theirs] = dead(tenant="acme"), dead(tenant="other")
    who = ann(scope=Scope(frozenset({"acme"})))
    with pytest.raises(UnknownJob):
        bulk.start("retry", ids=[mine, theirs], by=who, reason="x")
    assert not Bulk.objects.exists()
    token = bulk.preview("retry", query=FAILED, by=who).token
    made = run(bulk.start("retry", query=FAILED, by=who, reason="x", token=token))
    assert set(outcomes(made)) == {mine}
    assert state(theirs) == "failed"
    other = ann(scope=Scope(frozenset({"other"})))
    for see in (bulk.find, bulk.progress, bulk.items):
        with pytest.raises(UnknownTarget):
            see(made.id, by=other)
    assert bulk.every(by=other) == [] and len(bulk.every(by=who)) == 1
    with pytest.raises(UnknownTarget):
        bulk.abort(made.id, by=other, reason="x")


def test_a_job_that_leaves_the_scope_is_passed_by() -> None:
    [job_id] = dead(queue="mail")
    made = bulk.start("retry", ids=[job_id], by=ann(scope=Scope(None, frozenset({"mail"}))),
                      reason="x")  # fmt: skip
    jobs.Job.objects.update(queue="secret")
    assert outcomes(run(made))[job_id] == ("skipped", "has left the scope")


def test_the_audit_has_one_row_for_the_start_and_one_for_the_end() -> None:
    failed = dead(3)
    run(bulk.start("retry", ids=failed, **WHO))
    rows = list(Audit.objects.order_by("at", "id").values_list("action", "count", "reason"))
    assert rows == [
        ("bulk.start", 3, "the provider is back"),
        ("bulk.finish", 3, "the provider is back"),
    ]


# ---- care


def test_an_abort_holds_at_once() -> None:
    failed = dead(3)
    made = bulk.start("retry", ids=failed, **WHO)
    bulk.abort(made.id, by="bob", reason="no")
    assert run(made).state == "aborted"
    assert {word for word, _ in outcomes(made).values()} == {"waiting"}
    assert [state(job_id) for job_id in failed] == ["failed"] * 3
    with pytest.raises(NotAllowed, match="aborted"):
        bulk.abort(made.id, by="bob", reason="no")
    assert Audit.objects.filter(action="bulk.abort", outcome="refused").count() == 1


def test_the_first_ones_decide_about_the_rest() -> None:
    failed = dead(4)
    care = Care(canary=2)
    made = bulk.start("retry", ids=failed, care=care, **WHO)
    for _ in range(3):
        assert bulkrun.step(made.id) is not None
    made.refresh_from_db()
    assert (made.state, made.done) == ("canary", 2)
    with testing.fail_next(Noop, jobs.Unrecoverable("still down"), times=2):
        testing.run_jobs()
    assert run(made).state == "stopped" and made.note == "2 of the first 2 failed"
    assert [state(job_id) for job_id in failed[2:]] == ["failed"] * 2


def test_the_rest_follows_where_the_first_ones_succeed() -> None:
    failed = dead(4)
    made = bulk.start("retry", ids=failed, care=Care(canary=1), **WHO)
    run(made, 2)
    assert [state(job_id) for job_id in failed] == ["pending", *["failed"] * 3]
    testing.run_jobs()
    assert run(made).state == "done" and made.done == 4


def test_it_stops_where_too_many_of_those_that_ran_failed(
    set_clock: Callable[[Any], None],
) -> None:
    failed = dead(40)
    start = row(failed[0]).created_at
    set_clock(start)
    made = bulk.start("retry", ids=failed, care=Care(per_minute=20, stop_at=0.5), **WHO)
    for second in range(0, 63, 3):
        set_clock(start + timedelta(seconds=second))
        bulkrun.step(made.id)
    made.refresh_from_db()
    assert made.state == "running" and 20 <= made.done < 30
    with testing.fail_next(Noop, jobs.Unrecoverable("still down"), times=made.done):
        testing.run_jobs()
    set_clock(start + timedelta(seconds=66))
    bulkrun.step(made.id)
    made.refresh_from_db()
    assert made.state == "stopped" and "failed" in made.note
    assert made.done < 40


def test_a_pace_is_kept_and_catches_up_a_little_only(set_clock: Callable[[Any], None]) -> None:
    failed = dead(40)
    start = row(failed[0]).created_at
    set_clock(start)
    made = bulk.start("retry", ids=failed, care=Care(per_minute=60), **WHO)
    waits = [bulkrun.step(made.id) for _ in range(2)]
    assert run(made, 0).done == 1 and waits == [1.0, 1.0]
    for second in range(1, 11):
        set_clock(start + timedelta(seconds=second + 0.3))
        bulkrun.step(made.id)
    assert run(made, 0).done == 11
    set_clock(start + timedelta(minutes=5))  # nobody was there for a while
    bulkrun.step(made.id)
    assert run(made, 0).done <= 14


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"action": "explode"}, "action"),
        ({"ids": None}, "ids"),
        ({"ids": []}, "ids"),
        ({"ids": ["x"]}, "ids"),
        ({"query": "state:failed"}, "ids"),
        ({"ids": [uuid4()] * 1001}, "ids"),
        ({"ids": None, "query": ""}, "query"),
        ({"care": Care(per_minute=0)}, "per_minute"),
        ({"care": Care(canary=-1)}, "canary"),
        ({"care": Care(stop_at=2)}, "stop_at"),
        ({"attempts": 0}, "attempts"),
        ({"colour": "red"}, "colour"),
        ({"action": "edit"}, "action"),
        ({"action": "cancel", "care": Care(canary=2)}, "canary"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], option: str) -> None:
    call: dict[str, Any] = {"action": "retry", "ids": [a_job()], **WHO, **change}
    with pytest.raises(InvalidOption) as caught:
        bulk.start(call.pop("action"), **call)
    assert caught.value.option == option
    assert not Bulk.objects.exists()


@pytest.mark.parametrize("query", ["colour:red", "state:odd", "state:"])
def test_a_query_that_cannot_be_read_starts_nothing(query: str) -> None:
    for call in (bulk.preview, partial(bulk.start, reason="x")):
        with pytest.raises(QueryError):
            call("retry", query=query, by="ann")
    assert not Bulk.objects.exists()


def test_progress_says_how_far_it_is() -> None:
    made = bulk.start("retry", ids=dead(3), care=Care(per_minute=60), **WHO)
    bulkrun.step(made.id)
    found = bulk.progress(made.id, by="ann")
    assert (found.bulk.done, found.waiting) == (1, 2)
    assert found.eta is None or found.eta > 0
    assert len(bulk.items(made.id, by="ann", state="done")) == 1


def test_it_is_said_why_an_operation_does_not_go_on() -> None:
    made = bulk.start("retry", ids=dead(), **WHO)
    pauses.pause("queue:default", by="ann", reason="a look")
    assert "a look" in bulk.progress(made.id, by="ann").held
    jobs.cancel(jobs.Job.objects.get(kind="jobs.bulk").id, by="x", reason="by mistake")
    assert "carry it on" in bulk.progress(made.id, by="ann").held
    assert not bulk.progress(run(made).id, by="ann").held


def test_one_whose_job_is_gone_is_carried_on() -> None:
    failed = dead(2)
    made = bulk.start("retry", ids=failed, **WHO)
    jobs.cancel(jobs.Job.objects.get(kind="jobs.bulk").id, by="x", reason="by mistake")
    bulk.proceed(made.id, by="ann", reason="go on")
    testing.run_jobs()
    made.refresh_from_db()
    assert made.state == "done"
    with pytest.raises(NotAllowed):
        bulk.proceed(made.id, by="ann", reason="go on")


# ---- jobs that live on in a replay

REPLAYED = "was replayed: its replay stands for it"


@pytest.mark.parametrize("ends", ["pending", "succeeded", "failed"])
@pytest.mark.parametrize("action", ["retry", "replay"])
@pytest.mark.parametrize("which", ["query", "ids"])
def test_a_job_that_was_replayed_is_not_done_twice(action: str, which: str, ends: str) -> None:
    old = dead()[0]
    new = jobs.replay(old, **WHO)
    if ends == "succeeded":
        testing.run_jobs()
    elif ends == "failed":
        with testing.fail_next(Noop, jobs.Unrecoverable("down")):
            testing.run_jobs()
    chosen: dict[str, Any] = {"ids": [old, new]} if which == "ids" else {"query": "kind:test.noop"}
    seen = bulk.preview(action, by="ann", **chosen)
    assert seen.skipped[REPLAYED] == 1
    assert [found.id for found in seen.sample] in ([new], [])
    made = run(bulk.start(action, **chosen, **WHO))
    assert outcomes(made)[old] == ("skipped", REPLAYED)
    testing.run_jobs()
    assert (state(old), jobs.Job.objects.filter(replay_of=old).count()) == ("failed", 1)


def test_after_an_aborted_replay_everything_is_done_once() -> None:
    failed = dead(4)
    for job_id in failed[:2]:
        jobs.replay(job_id, **WHO)
    with testing.fail_next(Noop, jobs.Unrecoverable("down"), times=1):
        testing.run_jobs()
    for action in ("retry", "replay"):
        run(bulk.start(action, query=FAILED, **WHO))
        testing.run_jobs()
    runs = [
        jobs.Job.objects.filter(state="succeeded").filter(id=job_id).count()
        + jobs.Job.objects.filter(state="succeeded", lineage=job_id).exclude(id=job_id).count()
        for job_id in failed
    ]
    assert runs == [1, 1, 1, 1]


def test_the_failed_of_a_batch_are_retried_unless_they_were_replayed() -> None:
    with jobs.batch("import") as made:
        ids = [made.add(Noop()).id for _ in range(3)]
    with testing.fail_next(Noop, jobs.Unrecoverable("down"), times=3):
        testing.run_jobs()
    jobs.replay(ids[0], **WHO)
    testing.run_jobs()
    assert batchacts.retry_failed(made.id, **WHO) == 2
    assert [state(job_id) for job_id in ids] == ["failed", "pending", "pending"]


def test_a_dead_letter_of_a_job_that_was_replayed_can_be_decided_upon() -> None:
    old = dead()[0]
    jobs.replay(old, **WHO)
    testing.run_jobs()
    jobs.retry(old, **WHO)
    with testing.fail_next(Noop, jobs.Unrecoverable("down")):
        testing.run_jobs()
    letter = jobs.types.DeadLetter.objects.get(state="open")
    made = run(bulk.start("retry_letter", ids=[letter.id], **WHO))
    assert outcomes(made)[old] == ("done", "")
