"""Unique keys: of jobs that count as the same, one enters, whoever races for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, transaction

import jobs
from jobs.engine import keys
from jobs.engine.dispatch import promote
from jobs.errors import HandlerError, InvalidOption, KeyConflict
from jobs.limits import Unique
from tests.jobs.crowd import at_once, outcome
from tests.jobs.factories import a_job, claim_again, ended, move, row, settle, sql, state, succeed
from tests.specimens.handlers import Echo, Noop

NOW = datetime(2040, 5, 6, 7, 8, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
SetClock = Callable[[datetime | None], None]
SCOPES: list[Any] = ["unfinished", HOUR, "waiting", "ever"]


def enqueue(text: str = "", key: str = "k", for_: Any = "unfinished", **options: Any) -> Any:
    on_conflict = options.pop("on_conflict", None)
    unique = Unique(key, for_=for_, on_conflict=on_conflict)
    return jobs.enqueue(Echo(text=text), unique=unique, **options)


def count(**where: Any) -> int:
    return jobs.Job.objects.filter(**where).count()


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
    assert enqueue("b", for_="ever").id == first
    sql("DELETE FROM jobs_job WHERE id = %s", [first])
    again = enqueue("c", for_="ever")
    assert (again.id, again.deduplicated, count()) == (first, True, 0)
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
    with pytest.raises(jobs.DuplicateJob):
        enqueue("c", for_="waiting", job_id=mine)


@pytest.mark.django_db
@pytest.mark.parametrize("for_", SCOPES)
@pytest.mark.parametrize("payload", [Noop(), Echo(text="other")])
def test_a_chosen_id_of_another_job_is_refused_and_takes_no_key(
    for_: Any, payload: jobs.Payload
) -> None:
    other = jobs.enqueue(payload).id
    with pytest.raises(jobs.DuplicateJob):
        enqueue("a", for_=for_, job_id=other)
    assert sql("SELECT 1 FROM jobs_key") == []
    assert row(other).payload == payload.model_dump()
    assert not enqueue("a", for_=for_).deduplicated


# ---- Debounce


@pytest.mark.django_db
def test_a_waiting_job_takes_payload_priority_and_time_over(set_clock: SetClock) -> None:
    set_clock(NOW)
    first = enqueue("a", for_="waiting", delay=10, priority=5).id
    set_clock(NOW + timedelta(seconds=9))
    assert enqueue("b", for_="waiting", delay=10, priority=-5).id == first
    job = row(first)
    assert job.payload == {"text": "b"}
    assert (job.run_at, job.wait, job.priority) == (NOW + timedelta(seconds=19), 1, -5)
    assert job.rank == int(job.run_at.timestamp() * 1000) + 15_000
    set_clock(NOW + timedelta(seconds=10))
    assert promote() == 0, "its time has moved"
    set_clock(NOW + timedelta(seconds=19))
    assert promote() == 1
    assert enqueue("c", for_="waiting").id == first, "due, but nobody has begun it"
    assert (row(first).payload, row(first).wait) == ({"text": "c"}, 0)


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["queued", "running", "cancelled", "again"])
def test_a_job_that_does_not_wait_any_more_is_left_alone(how: str) -> None:
    first = enqueue("a", for_="waiting").id
    if how == "again":
        settle(ended(claim_again(first)))
    elif how == "cancelled":
        move(first, "cancelled")
    else:
        move(first, "queued")
        if how == "running":
            move(first, "running")
    second = enqueue("b", for_="waiting", delay=5)
    assert not second.deduplicated and second.id != first
    assert row(first).payload == {"text": "a"}
    assert enqueue("c", for_="waiting", delay=5).id == second.id
    assert row(second.id).payload == {"text": "c"}


@pytest.mark.django_db
def test_a_waiting_key_is_kept_as_long_as_its_job_may_wait(set_clock: SetClock) -> None:
    set_clock(NOW)
    enqueue("a", for_="waiting", run_at=NOW + timedelta(days=30))
    [(until,)] = sql("SELECT expires_at FROM jobs_key")
    assert until > NOW + timedelta(days=30)


# ---- Raising


@pytest.mark.django_db
@pytest.mark.parametrize("for_", ["unfinished", HOUR, "ever"])
def test_another_payload_under_the_key_can_be_asked_to_raise(for_: Any) -> None:
    first = enqueue("a", for_=for_, on_conflict="raise").id
    assert enqueue("a", for_=for_, on_conflict="raise").id == first
    with pytest.raises(KeyConflict) as caught, transaction.atomic():
        enqueue("b", for_=for_, on_conflict="raise")
    assert (caught.value.job_id, caught.value.key) == (first, "k")
    assert count() == 1 and row(first).payload == {"text": "a"}


@pytest.mark.django_db
def test_in_a_bulk_a_conflict_takes_all_of_it_back() -> None:
    enqueue("a")
    strict = Unique("k", on_conflict="raise")
    with pytest.raises(KeyConflict):
        jobs.enqueue_many([Noop(), jobs.Draft(Echo(text="b"), unique=strict)])
    assert count() == 1


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
