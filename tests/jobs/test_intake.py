"""What enqueue writes: every option on the row, and which way the job goes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

import jobs
from jobs import registry
from jobs.engine import flow, pushes, rq
from jobs.engine.dispatch import know_queues, promote
from tests.jobs.factories import row, sql
from tests.specimens.handlers import Echo, Fail, Noop

pytestmark = pytest.mark.django_db
NOW = datetime(2040, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


@pytest.fixture
def now(set_clock: Callable[[datetime | None], None]) -> datetime:
    """The database's clock stands still."""
    set_clock(NOW)
    return NOW


def both(payload: jobs.Payload, **options: Any) -> list[jobs.Job]:
    """The same job by both ways in."""
    one = jobs.enqueue(payload, **options).id
    [many] = jobs.enqueue_many([jobs.Draft(payload, **options)])
    return [row(one), row(many)]


def test_an_enqueue_without_options(now: datetime) -> None:
    answer = jobs.enqueue(Echo(text="hi"))
    job = row(answer.id)
    assert answer == jobs.types.Enqueued(job.id, "test.echo", "default", jobs.JobState.PENDING)
    assert (job.state, job.payload, job.payload_version) == ("pending", {"text": "hi"}, 1)
    assert (job.created_at, job.run_at, job.expires_at, job.queued_at) == (now, now, None, None)
    assert (job.priority, job.tenant, job.tags, job.correlation_id) == (0, "", [], "")
    assert (job.max_attempts, job.timeout, job.lease) == (5, 300.0, 15.0)
    assert (job.attempt, job.failures, job.crashes, job.releases) == (0, 0, 0, 0)
    assert (job.lane, job.wait, job.history) == ("\x1ftest.echo", 0, [])
    assert job.rank == int(now.timestamp() * 1000)


def test_both_ways_in_write_the_same_row(now: datetime) -> None:
    one, many = both(
        Echo(text='tab\t "quoted" back\\slash\nünï😀'),
        queue="mail:eu.1",
        priority=-7,
        delay=90.5,
        expires=timedelta(days=1),
        max_attempts=9,
        timeout=timedelta(minutes=2),
        tenant='te"nant\\ {,}',
        tags=["a,b", 'c"d', "e\\f", "{}", "", "NULL", " x "],
        correlation_id="req-1",
    )
    for name in [f.attname for f in jobs.Job._meta.concrete_fields if f.attname != "id"]:
        assert getattr(one, name) == getattr(many, name), name
    assert one.tags == ["a,b", 'c"d', "e\\f", "{}", "", "NULL", " x "]
    assert (one.tenant, one.lane) == ('te"nant\\ {,}', 'te"nant\\ {,}\x1ftest.echo')
    assert (one.run_at, one.wait) == (now + timedelta(seconds=90.5), 1)
    assert one.expires_at == now + timedelta(days=1)
    assert (one.max_attempts, one.timeout, one.queue) == (9, 120.0, "mail:eu.1")


def test_the_kinds_own_rules_are_the_defaults() -> None:
    for job in both(Fail()):
        assert (job.max_attempts, job.kind) == (2, "test.fail")


@pytest.mark.parametrize(
    ("options", "start", "wait"),
    [
        ({}, timedelta(0), 0),
        ({"delay": 0}, timedelta(0), 0),
        ({"delay": timedelta(seconds=5)}, timedelta(seconds=5), 1),
        ({"delay": 0.001}, timedelta(milliseconds=1), 1),
        ({"run_at": NOW}, timedelta(0), 0),
        ({"run_at": NOW - timedelta(days=1)}, timedelta(days=-1), 0),
        ({"run_at": NOW + timedelta(days=1)}, timedelta(days=1), 1),
        ({"run_at": (NOW + timedelta(hours=1)).astimezone(timezone(timedelta(hours=9)))}, None, 1),
    ],
)
def test_when_it_may_start(now: datetime, options: Any, start: Any, wait: int) -> None:
    for job in both(Noop(), **options):
        assert job.run_at == now + (timedelta(hours=1) if start is None else start)
        assert job.wait == wait


@pytest.mark.parametrize(
    ("expires", "moment"),
    [
        (60, NOW + timedelta(seconds=60)),
        (timedelta(hours=2), NOW + timedelta(hours=2)),
        (NOW + timedelta(days=3), NOW + timedelta(days=3)),
        (NOW - timedelta(days=3), NOW - timedelta(days=3)),
        (None, None),
    ],
)
def test_when_it_expires(now: datetime, expires: Any, moment: Any) -> None:
    assert [job.expires_at for job in both(Noop(), expires=expires)] == [moment, moment]


def test_a_kind_may_expire_by_itself(now: datetime) -> None:
    class Short(jobs.Payload, kind="test.short"):
        pass

    @jobs.handler(Short, expires=30)
    def run(ctx: jobs.Context, payload: Short) -> None: ...

    try:
        assert {job.expires_at for job in both(Short())} == {now + timedelta(seconds=30)}
        assert both(Short(), expires=5)[0].expires_at == now + timedelta(seconds=5)
    finally:
        registry.unregister("test.short")


def test_ids_are_chosen_or_rise() -> None:
    mine = uuid4()
    assert jobs.enqueue(Noop(), job_id=mine).id == mine
    made = [jobs.enqueue(Noop()).id for _ in range(5)]
    assert made == sorted(made) and {i.version for i in made} == {7}


def test_a_chosen_id_is_taken_once() -> None:
    mine = uuid4()
    jobs.enqueue(Echo(text="first"), job_id=mine)
    with pytest.raises(jobs.errors.DuplicateJob) as caught:
        jobs.enqueue(Echo(text="second"), job_id=mine)
    assert caught.value.job_id == mine and str(mine) in str(caught.value)
    assert row(mine).payload == {"text": "first"}, "and the transaction goes on"


def test_an_old_name_is_stored_as_the_new_one() -> None:
    class Renamed(jobs.Payload, kind="test.renamed", aliases=["test.before"], version=3):
        pass

    @jobs.handler(Renamed)
    def run(ctx: jobs.Context, payload: Renamed) -> None: ...

    try:
        assert {(job.kind, job.payload_version) for job in both(Renamed())} == {("test.renamed", 3)}
    finally:
        registry.unregister("test.renamed")


# ---- Order of dispatch


def dispatched(queue: str, budget: int = 100) -> list[Any]:
    know_queues({queue})
    return [r[0] for r in sql("SELECT id FROM jobs_dispatch(%s, %s, 50, '{}')", [queue, budget])]


def test_a_higher_priority_runs_sooner(queue: str, now: datetime) -> None:
    ids = {p: jobs.enqueue(Noop(), queue=queue, priority=p).id for p in (0, -100, 100, 5, -5)}
    assert dispatched(queue) == [ids[p] for p in (100, 5, 0, -5, -100)]


def test_an_older_job_overtakes_by_and_by(
    queue: str, set_clock: Callable[[datetime | None], None]
) -> None:
    set_clock(NOW)
    old = jobs.enqueue(Noop(), queue=queue).id
    set_clock(NOW + timedelta(milliseconds=flow.PRIORITY_STEP_MS - 1))
    near = jobs.enqueue(Noop(), queue=queue, priority=1).id
    set_clock(NOW + timedelta(milliseconds=flow.PRIORITY_STEP_MS + 1))
    late = jobs.enqueue(Noop(), queue=queue, priority=1).id
    assert dispatched(queue) == [near, old, late]


def test_tenants_take_turns(queue: str, now: datetime) -> None:
    greedy = [jobs.enqueue(Noop(), queue=queue, tenant="a", priority=50).id for _ in range(6)]
    modest = jobs.enqueue(Noop(), queue=queue, tenant="b").id
    assert dispatched(queue, 2) == [greedy[0], modest]


def test_a_job_waits_for_its_time(queue: str, set_clock: Callable[[datetime | None], None]) -> None:
    set_clock(NOW)
    later = jobs.enqueue(Noop(), queue=queue, delay=10).id
    assert promote() == 0 and dispatched(queue) == []
    set_clock(NOW + timedelta(seconds=10))
    assert promote() == 1 and dispatched(queue) == [later]
    assert row(later).history[-1][1:4] == ["pending", "queued", "dispatcher"]


# ---- Born queued


@pytest.fixture
def open_queue(queue: str) -> str:
    rq.set_open(queue, 30)
    return queue


@pytest.mark.django_db(transaction=True)
def test_on_an_open_queue_a_due_job_is_born_queued(open_queue: str) -> None:
    answer = jobs.enqueue(Noop(), queue=open_queue)
    assert answer.state is jobs.JobState.QUEUED
    job = row(answer.id)
    assert (job.state, job.queued_at, job.history) == ("queued", job.created_at, [])
    assert rq.listed(open_queue) == {answer.id}


@pytest.mark.parametrize(
    "options",
    [{"delay": 5}, {"run_at": NOW}, {"delay": 0.01}, {"run_at": NOW - timedelta(days=36500 // 4)}],
)
def test_a_job_with_a_time_of_its_own_is_born_pending(open_queue: str, options: Any) -> None:
    assert jobs.enqueue(Noop(), queue=open_queue, **options).state is jobs.JobState.PENDING


def test_jobs_of_other_queues_and_many_at_once_are_born_pending(open_queue: str) -> None:
    assert jobs.enqueue(Noop(), queue=open_queue + "x").state is jobs.JobState.PENDING
    [many] = jobs.enqueue_many([jobs.Draft(Noop(), queue=open_queue)])
    assert row(many).state == "pending"


def test_the_setting_forbids_it(open_queue: str, settings: Any) -> None:
    settings.JOBS = {"BORN_QUEUED": False}
    assert jobs.enqueue(Noop(), queue=open_queue).state is jobs.JobState.PENDING


def test_a_kind_with_rules_of_admission_is_born_pending(
    open_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.Handler, "has_admission_rules", property(lambda self: True))
    assert jobs.enqueue(Noop(), queue=open_queue).state is jobs.JobState.PENDING


def test_without_redis_a_job_is_born_pending(open_queue: str, no_redis: None) -> None:
    assert jobs.enqueue(Noop(), queue=open_queue).state is jobs.JobState.PENDING


def test_the_answer_open_is_believed_for_a_moment(
    open_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = [1000.0]
    monkeypatch.setattr(pushes.time, "monotonic", lambda: moment[0])  # type: ignore[attr-defined]
    assert jobs.enqueue(Noop(), queue=open_queue).state is jobs.JobState.QUEUED
    rq.client().delete(rq._open_key(open_queue))
    assert jobs.enqueue(Noop(), queue=open_queue).state is jobs.JobState.QUEUED
    moment[0] += 0.3
    assert jobs.enqueue(Noop(), queue=open_queue).state is jobs.JobState.PENDING


@pytest.mark.django_db(transaction=True)
def test_a_long_list_closes_the_queue_for_a_moment(open_queue: str) -> None:
    rq.client().rpush(rq.queue_key(open_queue), *["x"] * pushes._FULL)
    assert jobs.enqueue(Noop(), queue=open_queue).state is jobs.JobState.QUEUED
    assert jobs.enqueue(Noop(), queue=open_queue).state is jobs.JobState.PENDING


# ---- Redis is away


@pytest.mark.django_db(transaction=True)
def test_redis_down_at_commit_costs_no_job_and_no_exception(
    open_queue: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "jobs.intake")
    with transaction.atomic():
        born = jobs.enqueue(Noop(), queue=open_queue)
        assert born.state is jobs.JobState.QUEUED
        request.getfixturevalue("no_redis")
    assert row(born.id).state == "queued"
    assert "the dispatcher will repeat it" in caplog.text
    assert jobs.enqueue(Noop(), queue=open_queue).state is jobs.JobState.PENDING
    assert len(jobs.enqueue_many([Noop(), Noop()])) == 2
