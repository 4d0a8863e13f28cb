"""Of jobs that count as the same, one enters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

import jobs
from jobs.engine import keys
from jobs.errors import HandlerError, InvalidOption
from jobs.limits import Unique
from tests.jobs.factories import a_job, claim_again, ended, move, row, settle, sql, state, succeed
from tests.jobs.unique.entering import HOUR, NOW, SCOPES, SetClock, count, enqueue
from tests.specimens.handlers import Echo, Noop

# ---- One after another


@pytest.mark.django_db
@pytest.mark.parametrize("for_", SCOPES)
def test_the_second_gets_the_first_ones_id(for_: Any) -> None:
    first, second = enqueue("a", for_=for_), enqueue("a", for_=for_)
    assert (first.deduplicated, second.deduplicated) == (False, True)
    assert second.id == first.id and second.state is None
    assert count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("for_", SCOPES)
@pytest.mark.parametrize("other", ["key", "kind", "tenant"])
def test_another_key_kind_or_tenant_is_another_job(for_: Any, other: str) -> None:
    enqueue("a", for_=for_)
    if other == "key":
        second = enqueue("a", key="K", for_=for_)
    elif other == "tenant":
        second = enqueue("a", for_=for_, tenant="t")
    else:
        second = jobs.enqueue(Noop(), unique=Unique("k", for_=for_))
    assert not second.deduplicated
    assert count() == 2


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["queued", "running"])
def test_a_key_is_held_until_the_end(how: str) -> None:
    first = enqueue("a").id
    move(first, "queued")
    if how == "running":
        move(first, "running")
    assert enqueue("a").deduplicated


@pytest.mark.django_db
@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled", "expired"])
def test_after_the_end_an_unfinished_key_is_free(end: str) -> None:
    first = enqueue("a").id
    steps = ("queued", "running", end) if end in ("succeeded", "failed") else (end,)
    for step in steps:
        move(first, step)
    second = enqueue("a")
    assert not second.deduplicated and second.id != first


@pytest.mark.django_db
@pytest.mark.parametrize("ending", ["failed", "released", "snoozed", "held", "preempted", "lost"])
def test_a_job_that_runs_again_does_not_collide_with_its_own_key(ending: Any) -> None:
    first = enqueue("a").id
    claim = claim_again(first)
    assert settle(ended(claim, ending)) == {first: jobs.JobState.PENDING}
    assert enqueue("a").id == first
    assert succeed(claim_again(first)) == {first}


@pytest.mark.django_db
def test_a_retry_where_another_has_the_key_is_refused() -> None:
    first = enqueue("a").id
    for step in ("queued", "running", "failed"):
        move(first, step)
    second = enqueue("b")
    with pytest.raises(IntegrityError, match="jobs_job_unique_unfinished"), transaction.atomic():
        move(first, "pending")
    move(second.id, "cancelled")
    move(first, "pending")
    assert enqueue("c").id == first


# ---- Windows


@pytest.mark.django_db
def test_a_window_counts_from_the_enqueue_and_outlasts_the_end(set_clock: SetClock) -> None:
    set_clock(NOW)
    first = enqueue("a", for_=HOUR).id
    succeed(claim_again(first))
    set_clock(NOW + HOUR - timedelta(microseconds=1))
    assert enqueue("b", for_=HOUR).id == first
    set_clock(NOW + HOUR)
    second = enqueue("c", for_=HOUR)
    assert not second.deduplicated
    set_clock(NOW + 2 * HOUR - timedelta(microseconds=1))
    assert enqueue("d", for_=HOUR).id == second.id, "the first one's enqueue began a new window"


@pytest.mark.django_db
def test_two_windows_may_have_unfinished_jobs(set_clock: SetClock) -> None:
    set_clock(NOW)
    first = enqueue("a", for_=HOUR).id
    set_clock(NOW + HOUR)
    assert not enqueue("a", for_=HOUR).deduplicated
    assert state(first) == "pending"


# ---- For ever


@pytest.mark.django_db
@pytest.mark.parametrize("end", ["succeeded", "cancelled"])
def test_a_key_for_ever_survives_the_deletion_of_its_job(end: str) -> None:
    first = enqueue("a", for_="ever").id
    if end == "succeeded":
        succeed(claim_again(first))
    else:
        move(first, "cancelled")
    again = enqueue("b", for_="ever")
    assert (again.id, again.gone) == (first, False)
    sql("DELETE FROM jobs_job WHERE id = %s", [first])
    again = enqueue("c", for_="ever")
    assert (again.id, again.deduplicated, again.gone, count()) == (first, True, True, 0)
    again = enqueue("c", for_="ever", on_conflict="raise")
    assert again.id == first, "whose payload nobody can compare any more"


@pytest.mark.django_db
def test_a_key_for_ever_meets_one_of_an_unfinished_job() -> None:
    first = enqueue("a").id
    assert enqueue("b", for_="ever").id == first
    succeed(claim_again(first))
    assert enqueue("c", for_="ever").id == first, "it was kept for that job"


@pytest.mark.django_db
def test_a_chosen_id_counts_as_the_same_job_with_its_key() -> None:
    mine = uuid4()
    assert enqueue("a", for_="ever", job_id=mine).id == mine
    again = enqueue("a", for_="ever", job_id=mine)
    assert (again.id, again.deduplicated) == (mine, True)


@pytest.mark.django_db
def test_a_waiting_job_may_have_a_chosen_id() -> None:
    mine = uuid4()
    assert not enqueue("a", for_="waiting", job_id=mine).deduplicated
    again = enqueue("b", for_="waiting", job_id=mine)
    assert (again.id, again.deduplicated, row(mine).payload) == (mine, True, {"text": "b"})
    move(mine, "queued")
    with pytest.raises(jobs.errors.DuplicateJob):
        enqueue("c", for_="waiting", job_id=mine)


@pytest.mark.django_db
@pytest.mark.parametrize("for_", SCOPES)
@pytest.mark.parametrize("payload", [Noop(), Echo(text="other")])
def test_a_chosen_id_of_another_job_is_refused_and_takes_no_key(
    for_: Any, payload: jobs.Payload
) -> None:
    other = jobs.enqueue(payload).id
    with pytest.raises(jobs.errors.DuplicateJob):
        enqueue("a", for_=for_, job_id=other)
    assert sql("SELECT 1 FROM jobs_key") == []
    assert row(other).payload == payload.model_dump()
    assert not enqueue("a", for_=for_).deduplicated


# ---- Bad options


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"key": ""}, "empty"),
        ({"key": 5}, "must be text"),
        ({"key": None}, "must be text"),
        ({"key": "x" * 201}, "longer than 200"),
        ({"key": "a\x00b"}, "control character"),
        ({"key": "k", "for_": "always"}, "for_ must be"),
        ({"key": "k", "for_": None}, "for_ must be"),
        ({"key": "k", "for_": 5}, "for_ must be"),
        ({"key": "k", "for_": timedelta(0)}, "above zero"),
        ({"key": "k", "for_": timedelta(seconds=-1)}, "above zero"),
        ({"key": "k", "for_": timedelta(days=4000)}, "ten years"),
        ({"key": "k", "on_conflict": "ignore"}, "'ignore' is unknown"),
        ({"key": "k", "on_conflict": "replace"}, "go together"),
        ({"key": "k", "for_": HOUR, "on_conflict": "replace"}, "go together"),
        ({"key": "k", "for_": "waiting", "on_conflict": "return"}, "go together"),
        ({"key": "k", "for_": "waiting", "on_conflict": "raise"}, "go together"),
    ],
)
def test_a_wrong_key_is_refused(arguments: Any, problem: str) -> None:
    with pytest.raises(HandlerError, match=problem):
        Unique(**arguments)


@pytest.mark.django_db
@pytest.mark.parametrize("unique", ["k", 5, {"key": "k"}, Unique])
def test_only_a_unique_is_one(unique: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^unique: must be a jobs.Unique"):
        jobs.enqueue(Noop(), unique=unique)
    assert count() == 0


@pytest.mark.django_db
def test_the_holder_is_looked_up_by_kind_tenant_and_key() -> None:
    first = a_job(payload=Echo(text=""), unique=Unique("k"), tenant="t")
    assert keys.holder("test.echo", "t", "k") == first
    assert keys.holder("test.echo", "", "k") is None
    move(first, "cancelled")
    assert keys.holder("test.echo", "t", "k") is None
