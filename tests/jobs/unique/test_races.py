"""Many at once, and whoever races for a key."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

import jobs
from jobs.errors import KeyConflict
from jobs.limits import Unique
from tests.jobs.crowd import at_once, outcome
from tests.jobs.factories import move, sql
from tests.jobs.unique.entering import SCOPES, count, enqueue
from tests.specimens.handlers import Echo, Noop

# ---- Many at once


@pytest.mark.django_db
@pytest.mark.parametrize("for_", SCOPES)
def test_a_bulk_answers_the_jobs_that_have_the_keys(for_: Any) -> None:
    first = enqueue("a", for_=for_).id
    drafts = [
        jobs.Draft(Echo(text=text), unique=Unique(key, for_=for_))
        for text, key in [("b", "z"), ("c", "k"), ("d", "z"), ("e", "y")]
    ]
    z, k, z_again, y = jobs.enqueue_many([*drafts[:3], drafts[3]])
    assert k == first and z == z_again and len({z, k, y}) == 3
    assert count() == 3


@pytest.mark.django_db
def test_in_a_bulk_children_follow_the_job_that_has_the_parents_key() -> None:
    first = enqueue("a").id
    parent, child = uuid4(), uuid4()
    answer = jobs.enqueue_many(
        [
            jobs.Draft(Echo(text="child"), job_id=child, after=[parent]),
            jobs.Draft(Echo(text="a"), job_id=parent, unique=Unique("k")),
        ]
    )
    assert answer == [child, first]
    assert sql("SELECT parent_id FROM jobs_dependency WHERE child_id = %s", [child]) == [(first,)]


# ---- Races


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("for_", SCOPES)
def test_of_fifty_that_race_one_enters(for_: Any) -> None:
    answers = at_once([partial(enqueue, "a", for_=for_, delay=60) for _ in range(50)])
    assert len({a.id for a in answers}) == 1
    assert sorted(a.deduplicated for a in answers) == [False] + [True] * 49
    assert count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("for_", ["unfinished", "ever"])
def test_of_fifty_payloads_that_race_one_enters_and_the_others_are_told(for_: Any) -> None:
    acts = [outcome(partial(enqueue, str(n), for_=for_, on_conflict="raise")) for n in range(50)]
    answers = at_once(acts)
    [winner] = [a for a in answers if not isinstance(a, Exception)]
    losers = [a for a in answers if isinstance(a, KeyConflict)]
    assert len(losers) == 49 and {e.job_id for e in losers} == {winner.id}
    assert count() == 1


@pytest.mark.django_db(transaction=True)
def test_while_jobs_end_at_most_one_is_unfinished() -> None:
    """Enqueues race with the ends of the jobs that hold the key."""

    def life() -> int:
        made = 0
        for _ in range(25):
            answer = enqueue("a")
            assert sql(
                "SELECT count(*) FROM jobs_job WHERE state NOT IN ('cancelled', 'succeeded')"
            )[0][0] in (0, 1)
            if not answer.deduplicated:
                made += 1
                move(answer.id, "cancelled")
        return made

    made = at_once([life] * 6)
    assert sum(made) == count() > 1


@pytest.mark.django_db(transaction=True)
def test_debounces_race_with_the_dispatch_and_no_payload_is_lost() -> None:
    """The newest payload of a burst is in a job that nobody had begun when it was written."""

    def burst(n: int) -> list[tuple[UUID, bool, str]]:
        found = []
        for i in range(20):
            answer = enqueue(f"{n}.{i}", for_="waiting")
            found.append((answer.id, answer.deduplicated, f"{n}.{i}"))
        return found

    def feed() -> list[tuple[UUID, bool, str]]:
        for _ in range(40):
            sql(
                "UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock() WHERE id IN ("
                "SELECT id FROM jobs_job WHERE state = 'pending' FOR UPDATE SKIP LOCKED)"
            )
        return []

    acts: list[Callable[[], list[tuple[UUID, bool, str]]]] = [partial(burst, n) for n in range(4)]
    told = [entry for answer in at_once([*acts, feed]) for entry in answer]
    created = [job_id for job_id, deduplicated, _ in told if not deduplicated]
    assert len(created) == len(set(created)) == count()
    written: dict[UUID, set[str]] = {}
    for job_id, _, text in told:
        written.setdefault(job_id, set()).add(text)
    for job in jobs.Job.objects.all():
        assert job.payload["text"] in written[job.pk]
    assert count(state="pending") <= 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("for_", SCOPES)
def test_a_rollback_frees_the_key(for_: Any) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        enqueue("a", for_=for_)
        raise ZeroDivisionError
    assert not enqueue("b", for_=for_).deduplicated
    assert count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("for_", SCOPES)
def test_whoever_waits_for_a_key_gets_it_after_the_rollback(for_: Any) -> None:
    def roll_back() -> None:
        with transaction.atomic():
            enqueue("a", for_=for_)
            transaction.set_rollback(True)

    enter: Callable[[], Any] = partial(enqueue, "b", for_=for_)
    answers = at_once([roll_back] * 8 + [enter] * 4)
    entered = {a.id for a in answers if a is not None}
    assert len(entered) == 1 and count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("for_", SCOPES)
def test_two_bulks_in_opposite_order_do_not_deadlock(for_: Any) -> None:
    names = [f"k{n}" for n in range(20)]
    kinds: list[type[Any]] = [Noop, Echo]

    def bulk(order: list[str], turn: int) -> list[UUID]:
        return jobs.enqueue_many(
            jobs.Draft(
                kind(**({"text": "x"} if kind is Echo else {})),
                unique=Unique(name, for_=for_),
                tenant=tenant,
                delay=60,
            )
            for name in order
            for kind in kinds[::turn]
            for tenant in ["a", "b"][::turn]
        )

    for _ in range(3):
        answers = at_once([partial(bulk, names, 1), partial(bulk, names[::-1], -1)] * 3)
        assert {frozenset(answer) for answer in answers} == {frozenset(answers[0])}
        assert count() == 80
        sql("UPDATE jobs_job SET state = 'cancelled', finished_at = jobs_clock()")
        sql("DELETE FROM jobs_job")
        sql("DELETE FROM jobs_key")
