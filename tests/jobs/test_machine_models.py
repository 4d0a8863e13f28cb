"""Machines: a domain model's own states, moved by compare-and-set."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F, Q

import jobs
from jobs.machines import Moved
from tests.specimens.models import Announcement, Plan

pytestmark = pytest.mark.django_db
Status = Plan.Status
EDGES = {
    Status.DRAFT: [Status.READY],
    Status.READY: [Status.APPROVED, Status.DRAFT],
    Status.APPROVED: [Status.PUBLISHED, Status.FAILED],
    Status.FAILED: [Status.APPROVED],
}


def announce(moved: Moved) -> None:
    text = f"{moved.pk}: {moved.source} > {moved.to}, {moved.by}, {moved.why}"
    Announcement.objects.using(moved.using).create(text=text)


plans = jobs.machines.machine(Plan, "status", EDGES, on_move=announce)


def a_plan(status: str = Status.DRAFT, **fields: Any) -> Plan:
    return Plan.objects.create(status=status, **fields)


def stored(plan: Plan) -> Plan:
    return Plan.objects.get(pk=plan.pk)


def announced() -> list[str]:
    return list(Announcement.objects.order_by("id").values_list("text", flat=True))


# ---- one row


def test_a_move_writes_state_fields_and_event_together() -> None:
    plan = a_plan()
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    moved = plans.move(plan, Status.READY, by="ann", why="complete", reviewed_at=moment)
    assert (moved.source, moved.to, moved.fields) == ("draft", "ready", {"reviewed_at": moment})
    assert (plan.status, plan.reviewed_at) == ("ready", moment)
    assert (stored(plan).status, stored(plan).reviewed_at) == ("ready", moment)
    assert announced() == [f"{plan.pk}: draft > ready, ann, complete"]


def test_a_row_is_moved_by_its_key() -> None:
    plan = a_plan(Status.FAILED)
    assert plans.move(plan.pk, "approved").source == "failed"
    assert plans.move(str(plan.pk), "published").pk == plan.pk
    assert stored(plan).status == "published"


def test_expressions_are_computed_by_the_database() -> None:
    plan = a_plan(moves=6)
    plans.move(plan, "ready", moves=F("moves") + 1)
    assert plan.moves == 7


def test_columns_that_a_save_would_stamp_are_stamped() -> None:
    plan = a_plan()
    Plan.objects.update(updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    plans.move(plan, "ready")
    assert stored(plan).updated_at.year > 2020
    assert plan.updated_at == stored(plan).updated_at


def test_an_illegal_move_names_the_state_and_the_ways() -> None:
    plan = a_plan(Status.READY, title="x")
    with pytest.raises(jobs.errors.IllegalMove) as caught:
        plans.move(plan, "published", title="y")
    text = f"Plan {plan.pk} is 'ready' and cannot become 'published'; "
    assert str(caught.value) == text + "it may become 'approved', 'draft'"
    assert (caught.value.current, caught.value.allowed) == ("ready", ("approved", "draft"))
    assert (stored(plan).status, stored(plan).title, plan.status) == ("ready", "x", "ready")
    assert announced() == []


def test_nothing_leaves_a_last_state() -> None:
    with pytest.raises(jobs.errors.IllegalMove, match="nothing leaves there"):
        plans.move(a_plan(Status.PUBLISHED).pk, "draft")


def test_an_instance_must_show_the_present_state() -> None:
    plan, same = a_plan(), None
    same = stored(plan)
    plans.move(same, "ready")
    plans.move(same, "approved")
    with pytest.raises(jobs.errors.StaleState) as caught:
        plans.move(plan, "ready")
    assert "is 'approved', not 'draft' as expected" in str(caught.value)
    assert "it may become 'published', 'failed'" in str(caught.value)
    assert caught.value.expected == ("draft",)
    assert plan.status == "draft"


def test_expect_says_where_the_row_may_be_found() -> None:
    plan = a_plan(Status.FAILED)
    with pytest.raises(jobs.errors.StaleState):
        plans.move(plan.pk, "approved", expect="ready")
    plans.move(plan.pk, "approved", expect=["ready", "failed"])
    plan.status = "draft"  # the instance is out of date, and the caller knows it
    plans.move(plan, "failed", expect="approved")
    assert plan.status == stored(plan).status == "failed"


def test_a_row_that_does_not_exist() -> None:
    with pytest.raises(Plan.DoesNotExist):
        plans.move(0, "ready")
    with pytest.raises(Plan.DoesNotExist):
        plans.move(Plan(), "ready")


def test_the_move_is_undone_when_the_event_cannot_be_written() -> None:
    def fail(moved: Moved) -> None:
        raise OSError("no outbox")

    failing = jobs.machines.machine(Plan, "status", EDGES, on_move=fail)
    plan = a_plan()
    with pytest.raises(OSError, match="no outbox"):
        failing.move(plan, "ready")
    assert (plan.status, stored(plan).status) == ("draft", "draft")


def test_the_move_is_part_of_the_callers_transaction() -> None:
    plan = a_plan()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        plans.move(plan.pk, "ready")
        assert stored(plan).status == "ready"
        1 // 0  # noqa: B018
    assert (stored(plan).status, announced()) == ("draft", [])


def test_the_callers_transaction_survives_a_refusal() -> None:
    with transaction.atomic():
        plan = a_plan()
        with pytest.raises(jobs.errors.IllegalMove):
            plans.move(plan.pk, "failed")
        plans.move(plan.pk, "ready")
    assert stored(plan).status == "ready"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"to": "redy"}, "to='redy' is no state; did you mean 'ready'"),
        ({"to": "ready", "expect": "draf"}, "expect='draf' is no state; did you mean 'draft'"),
        ({"to": "ready", "expect": []}, "expect names no state"),
        ({"to": "ready", "status": "draft"}, "'status' is not set by a move"),
        ({"to": "ready", "id": 7}, "'id' is not set by a move"),
        ({"to": "ready", "titel": "x"}, "no field 'titel'; did you mean 'title'"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], problem: str) -> None:
    plan = a_plan()
    with pytest.raises(jobs.errors.MachineError, match=problem):
        plans.move(plan, **arguments)
    assert stored(plan).status == "draft"


# ---- several moves of one row


def test_a_walk_goes_through_every_state_and_writes_the_row_once(
    django_assert_num_queries: Any,
) -> None:
    plan = a_plan()
    path = [Status.READY, Status.APPROVED, Status.PUBLISHED]
    with django_assert_num_queries(6) as seen:  # the row, three events, a savepoint and its end
        moves = plans.walk(plan, path, by="ann", why="in a hurry", title="t")
    assert sum("UPDATE" in query["sql"] for query in seen) == 1
    assert [(m.source, m.to) for m in moves] == [
        ("draft", "ready"), ("ready", "approved"), ("approved", "published"),
    ]  # fmt: skip
    assert [dict(m.fields) for m in moves] == [{}, {}, {"title": "t"}]
    assert announced() == [f"{plan.pk}: {m.source} > {m.to}, ann, in a hurry" for m in moves]
    assert (plan.status, plan.title) == ("published", "t")
    assert (stored(plan).status, stored(plan).title) == ("published", "t")


@pytest.mark.parametrize(
    ("path", "error", "problem"),
    [
        (
            ["ready", "published"],
            jobs.errors.MachineError,
            "path: 'ready' cannot become 'published'",
        ),
        (
            ["approved", "published"],
            jobs.errors.IllegalMove,
            "is 'draft' and cannot become 'approved'",
        ),
        (["ready", "aproved"], jobs.errors.MachineError, "no state; did you mean 'approved'"),
        ([], jobs.errors.MachineError, "path names no state"),
    ],
)
def test_a_walk_that_cannot_be_gone_is_not_begun(
    path: list[str], error: type[Exception], problem: str
) -> None:
    plan = a_plan()
    for row in (plan, plan.pk):
        with pytest.raises(error, match=problem):
            plans.walk(row, path, title="t")
    assert (stored(plan).status, stored(plan).title, announced()) == ("draft", "", [])


def test_a_walk_is_undone_when_one_of_its_events_cannot_be_written() -> None:
    def fail(moved: Moved) -> None:
        if moved.to == "approved":
            raise OSError("no outbox")
        announce(moved)

    failing = jobs.machines.machine(Plan, "status", EDGES, on_move=fail)
    plan = a_plan()
    with pytest.raises(OSError, match="no outbox"):
        failing.walk(plan, ["ready", "approved"])
    assert (plan.status, stored(plan).status, announced()) == ("draft", "draft", [])


def test_a_move_may_ask_for_more_than_the_state() -> None:
    plan = a_plan(moves=3)
    for row in (plan, plan.pk):
        with pytest.raises(
            jobs.errors.StaleState, match="is 'draft', but not as it was given"
        ) as caught:
            plans.move(row, "ready", given=Q(moves__lt=3))
        assert caught.value.current == "draft"
    with pytest.raises(jobs.errors.IllegalMove):
        plans.move(plan, "published", given=Q(moves__lt=3))
    plans.move(plan, "ready", given=Q(moves__lte=3), moves=4)
    plans.move(plan.pk, "approved", given=Q(moves=4))
    assert (stored(plan).status, stored(plan).moves) == ("approved", 4)


def test_an_instance_is_moved_without_asking_where_it_is(django_assert_num_queries: Any) -> None:
    quiet = jobs.machines.machine(Plan, "status", EDGES)
    plan = a_plan()
    with django_assert_num_queries(3):  # a savepoint, the row, the savepoint's end
        quiet.move(plan, "ready")
    plan.status = "draft"
    assert quiet.move(plan, "approved", expect=["failed", "ready"]).source == "ready"


def test_all_that_one_call_moves_is_told_at_once() -> None:
    told: list[list[tuple[Any, str, Any]]] = []
    together = jobs.machines.machine(
        Plan, "status", EDGES,
        on_moves=lambda moves: told.append([(m.pk, m.to, m.instance) for m in moves]),
    )  # fmt: skip
    plan, other = a_plan(), a_plan()
    together.walk(plan, ["ready", "approved"])
    together.move_many([other], "ready")
    together.move_many([other], "ready")
    together.move(other.pk, "draft")
    assert told == [
        [(plan.pk, "ready", plan), (plan.pk, "approved", plan)],
        [(other.pk, "ready", None)], [(other.pk, "draft", None)],
    ]  # fmt: skip


def test_what_is_told_at_once_undoes_the_moves_by_raising() -> None:
    def fail(moves: Sequence[Moved]) -> None:
        raise OSError("no outbox")

    failing = jobs.machines.machine(Plan, "status", EDGES, on_moves=fail)
    plan, other = a_plan(), a_plan()
    with pytest.raises(OSError, match="no outbox"):
        failing.walk(plan, ["ready", "approved"])
    with pytest.raises(OSError, match="no outbox"):
        failing.move_many([plan, other], "ready")
    assert {stored(plan).status, stored(other).status} == {"draft"}


# ---- many rows


def test_many_rows_move_and_the_others_are_named() -> None:
    ready = [a_plan(Status.READY) for _ in range(3)]
    draft = a_plan()
    done = plans.move_many([*ready, draft.pk, 0], "approved", by="ann", title="t")
    assert [moved.pk for moved in done.moved] == [plan.pk for plan in ready]
    assert done.refused == {draft.pk: "draft"}
    assert {stored(plan).status for plan in ready} == {"approved"}
    assert stored(ready[0]).title == "t"
    assert (stored(draft).status, stored(draft).title) == ("draft", "")
    assert len(announced()) == 3


def test_a_queryset_is_moved() -> None:
    failed, ready = a_plan(Status.FAILED), a_plan(Status.READY)
    done = plans.move_many(Plan.objects.all(), "approved", expect="failed")
    assert [moved.pk for moved in done.moved] == [failed.pk]
    assert done.refused == {ready.pk: "ready"}


def test_a_batch_is_one_fact() -> None:
    said: list[Moved] = []

    def fail_late(moved: Moved) -> None:
        said.append(moved)
        if len(said) == 2:
            raise OSError("no outbox")

    failing = jobs.machines.machine(Plan, "status", EDGES, on_move=fail_late)
    both = [a_plan(), a_plan()]
    with pytest.raises(OSError, match="no outbox"):
        failing.move_many(both, "ready")
    assert {stored(plan).status for plan in both} == {"draft"}


# ---- races


@pytest.mark.django_db(transaction=True)
def test_of_many_that_race_one_moves_the_row() -> None:
    plan = a_plan(Status.READY)
    start, ends = threading.Barrier(6), []

    def race(to: str) -> None:
        start.wait(10)
        try:
            plans.move(Plan(pk=plan.pk, status="ready"), to)
            ends.append("moved")
        except jobs.errors.StaleState:
            ends.append("stale")
        finally:
            connection.close()

    targets = ["approved", "draft"] * 3
    threads = [threading.Thread(target=race, args=[to]) for to in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(ends) == ["moved", *["stale"] * 5]
    assert len(announced()) == 1


@pytest.mark.django_db(transaction=True)
def test_batches_that_overlap_neither_deadlock_nor_move_a_row_twice() -> None:
    ids = [a_plan(Status.READY).pk for _ in range(20)]
    start = threading.Barrier(4)
    moved: list[int] = []
    errors: list[Exception] = []

    def race(order: list[int]) -> None:
        start.wait(10)
        try:
            moved.extend(each.pk for each in plans.move_many(order, "approved").moved)
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    orders = [ids, ids[::-1], ids[::2], ids[::-2]]
    threads = [threading.Thread(target=race, args=[order]) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert errors == []
    assert sorted(moved) == ids


# ---- the declaration


@pytest.mark.parametrize(
    ("field", "edges", "problem"),
    [
        ("state", EDGES, "no field 'state'; did you mean 'status'"),
        ("status", {}, "there are no edges"),
        ("status", {"draft": []}, "there are no edges"),
        ("status", {"draft": ["redy"]}, "'redy' is none of its choices; did you mean 'ready'"),
        ("status", {"drafty": ["ready"]}, "'drafty' is none of its choices"),
        ("status", {"draft": ["ready", "ready"]}, "'draft' > 'ready' is declared twice"),
        ("status", ["draft"], "edges must map"),
    ],
)
def test_edges_that_make_no_sense_are_refused(field: str, edges: Any, problem: str) -> None:
    with pytest.raises(jobs.errors.MachineError, match=problem):
        jobs.machines.machine(Plan, field, edges)


def test_a_field_without_choices_knows_the_states_of_its_edges() -> None:
    moods = jobs.machines.machine(Plan, "mood", {"calm": "glad"})
    plan = a_plan()
    assert moods.move(plan, "glad").source == "calm"
    with pytest.raises(jobs.errors.MachineError, match="'sad' is no state"):
        moods.move(plan, "sad")


def test_what_may_be_is_said_without_a_query(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert plans.ways("ready") == ("approved", "draft")
        assert plans.ways("published") == ()
        assert plans.may(Plan(status="draft"), "ready")
        assert not plans.may("draft", "approved")


def test_the_edges_are_a_table_and_a_diagram() -> None:
    named = jobs.machines.machine(
        Plan,
        "status",
        [
            jobs.machines.Edge("approve", ["ready", "failed"], "approved", "somebody has read it"),
            jobs.machines.Edge("publish", "approved", "published"),
        ],
    )
    assert named.table().splitlines()[2:] == [
        "| approve | `ready`, `failed` | `approved` | somebody has read it |",
        "| publish | `approved` | `published` |  |",
    ]
    assert "    failed --> approved: approve" in named.diagram().splitlines()
    assert "    draft --> ready" in plans.diagram().splitlines()
