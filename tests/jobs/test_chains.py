"""Chains and dependencies: a job waits for its parents, and may read what they answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

import jobs
from jobs import registry
from jobs.context import Signal
from jobs.engine import runner, settler
from jobs.engine.reconcile import expire
from jobs.models import Dependency
from jobs.operate.cancel import cancel
from jobs.operate.retry import retry
from tests.jobs.crowd import at_once, outcome
from tests.jobs.factories import WORKER, claim_again, ended, row, settle, state, succeed
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


def fail(job_id: UUID) -> None:
    settle(ended(claim_again(job_id), "unrecoverable"))


def states(ids: list[UUID]) -> list[str]:
    return [state(job_id) for job_id in ids]


# ---- chains


def test_each_waits_for_the_one_before() -> None:
    ids = jobs.chain(Noop(), jobs.Draft(Noop(), priority=5), Noop())
    assert states(ids) == ["pending", "blocked", "blocked"]
    assert row(ids[1]).priority == 5
    succeed(claim_again(ids[0]))
    assert states(ids) == ["succeeded", "pending", "blocked"]
    assert row(ids[1]).history[-1][1:4] == ["blocked", "pending", "its last parent"]
    succeed(claim_again(ids[1]))
    succeed(claim_again(ids[2]))
    assert states(ids) == ["succeeded"] * 3


def test_a_chain_of_one_is_a_job() -> None:
    [only] = jobs.chain(Noop())
    assert state(only) == "pending"


def test_an_empty_chain_is_refused() -> None:
    with pytest.raises(jobs.errors.InvalidOption, match="at least one"):
        jobs.chain()


def test_a_bad_step_leaves_nothing() -> None:
    with pytest.raises(jobs.errors.InvalidOption, match="priority"):
        jobs.chain(Noop(), jobs.Draft(Noop(), priority=1000))
    assert jobs.Job.objects.count() == 0


def test_a_failure_takes_the_rest_of_the_chain_along() -> None:
    ids = jobs.chain(*[Noop()] * 5)
    fail(ids[0])
    assert states(ids) == ["failed", *["cancelled"] * 4]


def test_a_long_chain_falls_without_recursion() -> None:
    ids = jobs.chain(*[Noop()] * 600)
    cancel(ids[0], by="ada")
    assert set(states(ids[::50])) == {"cancelled"}


def test_a_chain_may_begin_behind_a_batch_of_parents() -> None:
    parents = jobs.enqueue_many([Noop()] * 3)
    first, second = jobs.chain(jobs.Draft(Noop(), after=parents), Noop())
    assert row(first).open_parents == 3
    succeed(*[claim_again(p) for p in parents])
    assert states([first, second]) == ["pending", "blocked"]


@pytest.mark.django_db(transaction=True)
def test_a_flow_is_there_as_a_whole_or_not_at_all() -> None:
    with transaction.atomic():
        jobs.chain(Noop(), Noop())
        transaction.set_rollback(True)
    assert (jobs.Job.objects.count(), Dependency.objects.count()) == (0, 0)


# ---- graphs


def test_a_diamond_joins_once() -> None:
    a, b, c, d = (uuid4() for _ in range(4))
    jobs.enqueue_many(
        [  # in any order
            jobs.Draft(Noop(), job_id=d, after=[b, c]),
            jobs.Draft(Noop(), job_id=b, after=[a]),
            jobs.Draft(Noop(), job_id=a),
            jobs.Draft(Noop(), job_id=c, after=[a]),
        ]
    )
    succeed(claim_again(a))
    succeed(claim_again(b))
    assert states([b, c, d]) == ["succeeded", "pending", "blocked"]
    succeed(claim_again(c))
    assert (state(d), row(d).open_parents) == ("pending", 0)


def test_parents_that_end_in_one_statement_are_all_counted() -> None:
    parents = jobs.enqueue_many([Noop()] * 4)
    child = jobs.enqueue(Noop(), after=parents).id
    succeed(*[claim_again(p) for p in parents])
    assert (state(child), row(child).open_parents) == ("pending", 0)


def test_parents_that_have_succeeded_already_are_not_waited_for() -> None:
    done, waiting = jobs.enqueue_many([Noop()] * 2)
    succeed(claim_again(done))
    assert state(jobs.enqueue(Noop(), after=[done]).id) == "pending"
    child = jobs.enqueue(Noop(), after=[done, waiting, waiting]).id
    assert (state(child), row(child).open_parents) == ("blocked", 1)


def test_a_delay_counts_as_well() -> None:
    parent = jobs.enqueue(Noop()).id
    child = jobs.enqueue(Noop(), after=[parent], delay=60).id
    succeed(claim_again(parent))
    assert (state(child), row(child).wait) == ("pending", 1)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ([uuid4()], "there is no job"),
        (["x"], "must be a UUID"),
        ("abc", "must be a list"),
        ([uuid4() for _ in range(1001)], "more than 1000"),
    ],
)
def test_bad_parents_are_refused(after: Any, message: str) -> None:
    with pytest.raises(jobs.errors.InvalidOption, match=message):
        jobs.enqueue(Noop(), after=after)
    with pytest.raises(jobs.errors.InvalidOption, match=message):
        jobs.enqueue_many([Noop(), jobs.Draft(Noop(), after=after)])
    assert jobs.Job.objects.count() == 0


def test_circles_are_refused_and_named() -> None:
    a, b, c = (uuid4() for _ in range(3))
    with pytest.raises(jobs.errors.InvalidOption, match="in a circle") as caught:
        jobs.enqueue_many(
            [
                jobs.Draft(Noop(), job_id=a, after=[c]),
                jobs.Draft(Noop(), job_id=b, after=[a]),
                jobs.Draft(Noop(), job_id=c, after=[b]),
            ]
        )
    assert all(str(one) in str(caught.value) for one in (a, b, c))
    with pytest.raises(jobs.errors.InvalidOption, match="cannot wait for itself"):
        jobs.enqueue(Noop(), job_id=a, after=[a])
    assert jobs.Job.objects.count() == 0


# ---- a parent that does not succeed


def cancelled(job_id: UUID) -> None:
    cancel(job_id, by="ada")


def expired(job_id: UUID) -> None:
    jobs.Job.objects.filter(pk=job_id).update(expires_at="2020-01-01T00:00:00Z")
    expire("me")


@pytest.mark.parametrize("end", [fail, cancelled, expired])
@pytest.mark.parametrize(
    ("policy", "then"), [("cancel", "cancelled"), ("wait", "blocked"), ("run", "pending")]
)
@pytest.mark.parametrize("first", ["edge", "end"])
def test_the_edge_says_what_then(
    end: Callable[[UUID], None], policy: Any, then: str, first: str
) -> None:
    parent = jobs.enqueue(Noop()).id
    if first == "end":
        end(parent)
    child = jobs.enqueue(Noop(), after=[parent], on_parent_failure=policy).id
    grandchild = jobs.enqueue(Noop(), after=[child]).id
    if first == "edge":
        end(parent)
    assert state(child) == then
    assert state(grandchild) == ("cancelled" if then == "cancelled" else "blocked")


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(jobs.errors.InvalidOption, match="on_parent_failure"):
        jobs.enqueue(Noop(), after=[jobs.enqueue(Noop()).id], on_parent_failure="x")  # type: ignore[arg-type]


def test_who_waits_goes_on_after_the_parents_retry() -> None:
    parent = jobs.enqueue(Noop()).id
    child = jobs.enqueue(Noop(), after=[parent], on_parent_failure="wait").id
    fail(parent)
    retry(parent, by="ada")
    assert state(child) == "blocked"
    succeed(claim_again(parent))
    assert (state(child), row(child).open_parents) == ("pending", 0)


def test_a_cancelled_child_may_be_retried_without_its_parent() -> None:
    parent, child = jobs.chain(Noop(), Noop())
    fail(parent)
    retry(child, by="ada")
    succeed(claim_again(child))
    retry(parent, by="ada")
    succeed(claim_again(parent))
    assert states([parent, child]) == ["succeeded", "succeeded"]


def test_a_child_of_two_falls_with_the_first_and_stays() -> None:
    good, bad = jobs.enqueue_many([Noop()] * 2)
    child = jobs.enqueue(Noop(), after=[good, bad]).id
    fail(bad)
    succeed(claim_again(good))
    assert state(child) == "cancelled"


# ---- what parents answered


class Sum(jobs.Payload, kind="test.sum"):
    pass


def test_a_child_reads_the_results_of_those_that_succeeded() -> None:
    parents = jobs.enqueue_many([Noop()] * 4)
    seen: list[dict[UUID, Any]] = []

    @jobs.handler(Sum)
    def handle(ctx: jobs.Context, payload: Sum) -> None:
        seen.append(ctx.parents())

    try:
        child = jobs.enqueue(Sum(), after=parents, on_parent_failure="run").id
        for parent, result in zip(parents, ['{"a": [1]}', '"text"', "null"], strict=False):
            succeed(claim_again(parent), result=result)
        fail(parents[3])
        done = runner.run(claim_again(child), Signal(str), lambda *_: None, WORKER)
        assert done is not None
        settler.write([done], WORKER)
    finally:
        registry.unregister("test.sum")
    assert seen == [{parents[0]: {"a": [1]}, parents[1]: "text", parents[2]: None}]
    assert state(child) == "succeeded"


# ---- races


@pytest.mark.django_db(transaction=True)
def test_parents_that_end_at_the_same_moment_free_the_child_once() -> None:
    for _ in range(5):
        parents = jobs.enqueue_many([Noop()] * 6)
        child = jobs.enqueue(Noop(), after=parents).id
        claimed = [claim_again(p) for p in parents]
        at_once([lambda c=c: succeed(c) for c in claimed])  # type: ignore[misc]
        assert (state(child), row(child).open_parents) == ("pending", 0)
        assert len(row(child).history) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", [succeed, lambda c: settle(ended(c, "unrecoverable"))])
def test_a_child_that_comes_while_its_parent_ends_is_not_forgotten(end: Any) -> None:
    for _ in range(8):
        parent = jobs.enqueue(Noop()).id
        claim = claim_again(parent)
        made, _ = at_once(
            [lambda p=parent: jobs.enqueue(Noop(), after=[p]), lambda c=claim: end(c)]  # type: ignore[misc]
        )
        expected = "pending" if state(parent) == "succeeded" else "cancelled"
        assert state(made.id) == expected


@pytest.mark.django_db(transaction=True)
def test_cancels_from_both_ends_of_a_chain_meet() -> None:
    for _ in range(5):
        ids = jobs.chain(*[Noop()] * 6)
        at_once([outcome(lambda j=j: cancel(j, by="x")) for j in ids])  # type: ignore[misc]
        assert states(ids) == ["cancelled"] * 6
        assert {len(row(j).history) for j in ids} == {1}
