"""Batches and dependencies in the database: counted truly, called back once, resolved together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import permutations, product
from typing import Any
from uuid import UUID

import pytest
from django.db import connections

import jobs
from jobs.engine import reconcile
from jobs.operate import batches
from jobs.operate.cancel import cancel
from jobs.operate.retry import retry
from tests.jobs.crowd import at_once
from tests.jobs.factories import a_job, claim_again, ended, row, settle, sql, state, succeed
from tests.specimens.handlers import Echo, Fail, Noop

pytestmark = pytest.mark.django_db
NOW = datetime(2040, 5, 6, tzinfo=UTC)
SetClock = Callable[[datetime | None], None]
NAMES = ("on_success", "on_complete", "on_failure")
Ways = dict[str, Callable[[UUID], Any]]

WAYS: Ways = {
    "succeeded": lambda job_id: succeed(claim_again(job_id)),
    "failed": lambda job_id: settle(ended(claim_again(job_id), "unrecoverable")),
    "cancelled": lambda job_id: cancel(job_id, by="me"),
    "stopped": lambda job_id: settle(ended(claim_again(job_id), "cancelled")),
}
"""How a job may end."""


def a_batch(members: int = 0, *, sealed: bool = True, **options: Any) -> tuple[UUID, list[UUID]]:
    """A batch that calls back by Echo jobs that say why."""
    batch = batches.batch(**{name: Echo(text=name) for name in NAMES})  # type: ignore[arg-type]
    ids = [batch.add(Noop(), **options).id for _ in range(members)]
    if sealed:
        batch.seal()
    return batch.id, ids


def counted(batch: UUID) -> tuple[Any, ...]:
    """State, and members succeeded, failed, cancelled and expired."""
    [found] = sql(
        "SELECT state, succeeded, failed, cancelled, expired FROM jobs_batch WHERE id = %s", [batch]
    )
    return found


def really(batch: UUID) -> tuple[int, ...]:
    """The same numbers, by the members' rows."""
    found = dict(
        sql("SELECT state, count(*) FROM jobs_job WHERE batch_id = %s GROUP BY 1", [batch])
    )
    return tuple(found.get(s, 0) for s in ("succeeded", "failed", "cancelled", "expired"))


def called() -> list[str]:
    """The callbacks that were made, sorted."""
    found = jobs.Job.objects.filter(kind="test.echo")
    return sorted(job.payload["text"] for job in found)


# ---- Counters


def test_counters_are_true_however_members_end(set_clock: SetClock) -> None:
    set_clock(NOW)
    batch, ids = a_batch(5, expires=60)
    for n, (name, way) in enumerate(WAYS.items()):
        way(ids[n])
        assert counted(batch)[1:] == really(batch), name
    assert counted(batch) == ("sealed", 1, 1, 2, 0)
    set_clock(NOW + timedelta(seconds=60))
    assert reconcile.expire("me") == 1
    assert counted(batch) == ("done", 1, 1, 2, 1)
    assert called() == ["on_complete", "on_failure"]


@pytest.mark.parametrize("ending", ["failed", "snoozed", "released", "lost", "crashed", "held"])
def test_an_attempt_that_is_not_the_last_counts_nothing(ending: Any) -> None:
    batch, [job_id] = a_batch(1)
    settle(ended(claim_again(job_id), ending))
    assert counted(batch) == ("sealed", 0, 0, 0, 0)
    succeed(claim_again(job_id))
    assert counted(batch) == ("done", 1, 0, 0, 0)


def test_many_members_of_many_batches_in_one_statement() -> None:
    made = [a_batch(3) for _ in range(4)]
    claims = [claim_again(job_id) for _, ids in made for job_id in ids]
    succeed(*claims)
    assert {counted(batch) for batch, _ in made} == {("done", 3, 0, 0, 0)}
    assert called() == sorted(["on_complete", "on_success"] * 4)


def test_a_settlement_that_is_refused_counts_nothing() -> None:
    batch, [job_id] = a_batch(1)
    claim = claim_again(job_id)
    assert succeed(claim) == {job_id}
    assert succeed(claim) == set()
    assert settle(ended(claim, "unrecoverable")) == {}
    assert counted(batch) == ("done", 1, 0, 0, 0)


# ---- Callbacks


@pytest.mark.parametrize("order", list(permutations(["succeeded", "failed", "seal"])))
def test_callbacks_are_made_once_in_any_order(order: tuple[str, ...]) -> None:
    batch, ids = a_batch(2, sealed=False)
    for step in order:
        if step == "seal":
            batches.seal(batch)
        else:
            WAYS[step](ids[0] if step == "succeeded" else ids[1])
        assert ("on_failure" in called()) == (really(batch)[1] > 0)
    assert called() == ["on_complete", "on_failure"]
    assert counted(batch)[0] == "done"


def test_an_empty_batch_is_done_when_it_is_sealed() -> None:
    batch, _ = a_batch(0)
    assert (counted(batch), called()) == (("done", 0, 0, 0, 0), ["on_complete", "on_success"])


def test_a_retry_opens_a_new_generation() -> None:
    batch, [one, two] = a_batch(2)
    WAYS["failed"](one)
    WAYS["succeeded"](two)
    assert called() == ["on_complete", "on_failure"]
    retry(one, by="me")
    assert counted(batch) == ("sealed", 1, 0, 0, 0)
    WAYS["succeeded"](one)
    assert counted(batch) == ("done", 2, 0, 0, 0)
    assert called() == ["on_complete", "on_complete", "on_failure", "on_success"]


def test_a_callback_is_a_job_like_others(set_clock: SetClock) -> None:
    set_clock(NOW)
    batch = batches.batch(
        tenant="acme",
        on_success=jobs.Draft(Echo(text="hé"), priority=7, queue="mail", expires=60, timeout=9),
    )
    batch.seal()
    [job] = jobs.Job.objects.filter(kind="test.echo")
    assert (job.state, job.payload, job.tenant) == ("pending", {"text": "hé"}, "acme")
    assert (job.queue, job.priority, job.timeout, job.max_attempts) == ("mail", 7, 9.0, 5)
    assert (job.lane, job.expires_at) == ("acme\x1ftest.echo", NOW + timedelta(seconds=60))
    assert job.rank == int(NOW.timestamp() * 1000) - 7 * 3000
    assert job.correlation_id == str(batch.id)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", range(6))
def test_seal_and_last_ends_meet_and_callbacks_are_made_once(attempt: int) -> None:
    batch, ids = a_batch(8, sealed=False)
    claims = [claim_again(job_id) for job_id in ids]
    acts: list[Callable[[], Any]] = [partial(succeed, claim) for claim in claims[:-1]]
    acts.append(partial(settle, ended(claims[-1], "unrecoverable")))
    at_once([*acts, partial(batches.seal, batch)])
    assert counted(batch) == ("done", 7, 1, 0, 0)
    assert called() == ["on_complete", "on_failure"]


@pytest.mark.django_db(transaction=True)
def test_members_of_several_batches_end_crosswise_without_a_deadlock() -> None:
    first, second = a_batch(20), a_batch(20)
    one = [claim_again(job_id) for pair in zip(first[1], second[1], strict=True) for job_id in pair]
    acts: list[Callable[[], Any]] = [
        partial(succeed, *(one[n::4] if n % 2 else one[n::4][::-1])) for n in range(4)
    ]
    at_once(acts)
    assert {counted(first[0]), counted(second[0])} == {("done", 20, 0, 0, 0)}
    assert called() == ["on_complete"] * 2 + ["on_success"] * 2


@pytest.mark.django_db(transaction=True)
def test_whoever_adds_while_the_batch_is_sealed_is_counted_or_refused() -> None:
    for _ in range(5):
        batch, _ = a_batch(0, sealed=False)

        def add(batch: UUID = batch) -> int:
            added = 0
            for _ in range(10):
                try:
                    jobs.enqueue(Noop(), batch=batch)
                except jobs.errors.InvalidOption:
                    break
                added += 1
            return added

        acts: list[Callable[[], Any]] = [add, add, add, partial(batches.seal, batch)]
        added = sum(answer or 0 for answer in at_once(acts))
        assert sql("SELECT total FROM jobs_batch WHERE id = %s", [batch]) == [(added,)]


# ---- Parents and children


def child(*parents: UUID, policy: Any = "cancel", **options: Any) -> UUID:
    answer = jobs.enqueue(Noop(), after=parents, on_parent_failure=policy, **options)
    return answer.id


@pytest.mark.parametrize(
    ("policy", "end", "expected"),
    [
        (policy, end, "pending" if end == "succeeded" else expected)
        for policy, expected in [("cancel", "cancelled"), ("wait", "blocked"), ("run", "pending")]
        for end in WAYS
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_what_becomes_of_a_child(policy: Any, end: str, expected: str, late: bool) -> None:
    parent = a_job()
    if late:
        WAYS[end](parent)
    made = child(parent, policy=policy)
    if not late:
        assert state(made) == "blocked"
        WAYS[end](parent)
    assert state(made) == expected
    if expected == "cancelled":
        assert row(made).cancel_reason == "a parent did not succeed"


def test_a_child_that_waits_goes_when_its_parent_is_retried() -> None:
    parent = a_job()
    made = child(parent, policy="wait")
    WAYS["failed"](parent)
    retry(parent, by="me")
    assert state(made) == "blocked"
    WAYS["succeeded"](parent)
    assert (state(made), row(made).open_parents) == ("pending", 0)


@pytest.mark.parametrize("ends", list(product(["succeeded", "failed"], repeat=2)))
def test_edges_of_different_policies_meet(ends: tuple[str, str]) -> None:
    parents = [a_job(), a_job()]
    strict, easy = child(*parents), child(*parents, policy="run")
    for parent, end in zip(parents, ends, strict=True):
        WAYS[end](parent)
    assert state(easy) == "pending"
    assert state(strict) == ("pending" if ends == ("succeeded",) * 2 else "cancelled")


def test_a_diamond_runs_its_bottom_once() -> None:
    top = a_job()
    left, right = child(top), child(top)
    bottom = child(left, right)
    WAYS["succeeded"](top)
    assert [state(j) for j in (left, right, bottom)] == ["pending", "pending", "blocked"]
    WAYS["succeeded"](left)
    assert state(bottom) == "blocked"
    WAYS["succeeded"](right)
    assert state(bottom) == "pending"
    assert len([m for m in row(bottom).history if m[2] == "pending"]) == 1


def test_a_diamond_falls_as_a_whole_and_counts_each_once() -> None:
    batch = batches.batch()
    top = a_job()
    left, right = child(top, batch=batch.id), child(top, batch=batch.id)
    bottom = child(left, right, batch=batch.id)
    batch.seal()
    WAYS["failed"](top)
    assert [state(j) for j in (left, right, bottom)] == ["cancelled"] * 3
    assert counted(batch.id) == ("done", 0, 0, 3, 0)


@pytest.mark.parametrize("end", ["failed", "cancelled", "stopped"])
def test_a_cascade_goes_through_all_levels(end: str) -> None:
    first = a_job()
    second = child(first)
    third = child(second)
    after_all = child(third, policy="run")
    patient = child(third, policy="wait")
    WAYS[end](first)
    assert [state(j) for j in (second, third)] == ["cancelled"] * 2
    assert (state(after_all), state(patient)) == ("pending", "blocked")


def test_a_chain_of_a_thousand_falls_without_an_overflow() -> None:
    first = previous = a_job()
    batch = batches.batch()
    for _ in range(1000):
        previous = child(previous, batch=batch.id)
    batch.seal()
    WAYS["failed"](first)
    assert counted(batch.id) == ("done", 0, 0, 1000, 0)


def test_a_child_keeps_its_own_time(set_clock: SetClock) -> None:
    set_clock(NOW)
    parent = a_job()
    soon, late = child(parent), child(parent, delay=60)
    WAYS["succeeded"](parent)
    assert (row(soon).wait, row(late).wait) == (0, 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_parents_that_end_together_see_each_other(end: str) -> None:
    """Each alone would find the other one unfinished, and the child would wait for ever."""
    for _ in range(15):
        parents = [a_job() for _ in range(4)]
        batch = batches.batch()
        made = child(*parents, batch=batch.id)
        batch.seal()
        claims = [claim_again(job_id) for job_id in parents]
        acts: list[Callable[[], Any]] = [
            partial(succeed, claim)
            if end == "succeeded"
            else partial(settle, ended(claim, "unrecoverable"))
            for claim in claims
        ]
        at_once(acts)
        if end == "succeeded":
            assert (state(made), row(made).open_parents) == ("pending", 0)
        else:
            assert state(made) == "cancelled"
            assert counted(batch.id) == ("done", 0, 0, 1, 0), "by one of its parents only"


@pytest.mark.django_db(transaction=True)
def test_a_child_that_comes_while_its_parents_end_is_not_left_behind() -> None:
    for _ in range(15):
        parents = [a_job() for _ in range(3)]
        claims = [claim_again(job_id) for job_id in parents]
        acts: list[Callable[[], Any]] = [partial(succeed, claim) for claim in claims]
        answers = at_once([*acts, partial(child, *parents), partial(child, *parents[::-1])])
        for made in answers[-2:]:
            assert (state(made), row(made).open_parents) == ("pending", 0)


@pytest.mark.django_db(transaction=True)
def test_a_cascade_and_a_cancel_of_the_same_child_count_it_once() -> None:
    for _ in range(15):
        parent = a_job()
        batch = batches.batch()
        made = child(parent, batch=batch.id)
        grandchild = child(made, batch=batch.id)
        batch.seal()

        def withdraw(job_id: UUID = made) -> None:
            try:
                cancel(job_id, by="me")
            except jobs.JobsError:
                return

        acts: list[Callable[[], Any]] = [
            partial(settle, ended(claim_again(parent), "unrecoverable")),
            withdraw,
        ]
        at_once(acts)
        assert (state(made), state(grandchild)) == ("cancelled", "cancelled")
        assert counted(batch.id) == ("done", 0, 0, 2, 0)


def test_a_member_that_fails_at_last_is_counted_at_its_last_attempt() -> None:
    batch = batches.batch(on_failure=Echo(text="on_failure"))
    job_id = batch.add(Fail()).id
    batch.seal()
    settle(ended(claim_again(job_id)))
    assert (counted(batch.id)[2], called()) == (0, [])
    settle(ended(claim_again(job_id)))
    assert (counted(batch.id)[2], called()) == (1, ["on_failure"])
    assert not connections["default"].needs_rollback
