"""The testing kit that projects are given."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import TestCase

import jobs
from jobs import registry
from jobs.models import Lease, Queue
from jobs.operate.doctor import violations
from jobs.testing import (
    assert_enqueued,
    assert_not_enqueued,
    check_handler,
    enqueued,
    fail_next,
    freeze_clock,
    run_jobs,
)
from tests.specimens.handlers import AsyncSleep, Echo, Fail, Flaky, Noop


class Told(jobs.Payload, kind="kit.told", aliases=["kit.old"]):
    what: str = ""
    at: datetime | None = None


@pytest.fixture
def told() -> Iterator[list[str]]:
    """What the handlers of ``Told`` were given, in order; ``what`` says what they do."""
    heard: list[str] = []

    def tell(ctx: jobs.Context, payload: Told) -> str:
        heard.append(payload.what)
        if payload.what == "enqueue":
            jobs.enqueue(Told(what="enqueued"))
        if payload.what == "write and raise":
            Queue.objects.create(name="written")
            raise ValueError("after the write")
        if payload.what == "break":
            Queue.objects.create(name="broken")
            Queue.objects.create(name="broken")
        if payload.what == "snooze" and ctx.attempt == 1:
            raise jobs.Snooze(60)
        if payload.what == "vary":
            return str(ctx.attempt)
        if payload.what == "once" and ctx.attempt > 1:
            raise ValueError("once only")
        return payload.what

    jobs.handler(Told, max_attempts=2, backoff=jobs.backoff.Fixed(10, jitter="none"))(tell)
    yield heard
    registry.unregister("kit.told")


@pytest.fixture(params=[False, True], ids=["in a transaction", "without one"])
def database(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("transactional_db" if request.param else "db")


@pytest.mark.usefixtures("database")
class TestRunJobs:
    def test_runs_what_is_due_and_what_that_enqueues(self, told: list[str]) -> None:
        jobs.enqueue(Told(what="enqueue"))
        jobs.enqueue(Told(what="later"), delay=60)
        summary = run_jobs()
        assert (summary.succeeded, len(summary)) == (2, 2)
        assert told == ["enqueue", "enqueued"]
        assert violations() == []

    def test_priority_and_age_decide_the_order(self, told: list[str]) -> None:
        for what, priority in (("low", -10), ("old", 0), ("new", 0), ("high", 10)):
            jobs.enqueue_many([jobs.Draft(Told(what=what), priority=priority)])
        run_jobs()
        assert told == ["high", "old", "new", "low"]

    def test_a_failure_waits_for_its_time(self, told: list[str]) -> None:
        jobs.enqueue(Fail())
        with freeze_clock() as clock:
            first = run_jobs()
            assert (first.waiting, first.errors) == (1, ["ValueError: as told"])
            assert len(run_jobs()) == 0
            clock.tick(1)
            assert run_jobs().failed == 1
        assert jobs.types.DeadLetter.objects.get().reason == "exhausted"
        assert violations() == []

    def test_effects_before_a_failure_stay_as_they_do_in_a_worker(self, told: list[str]) -> None:
        jobs.enqueue(Told(what="write and raise"))
        assert run_jobs().waiting == 1
        assert Queue.objects.filter(name="written").exists()

    def test_a_broken_transaction_is_the_jobs_failure_only(self, told: list[str]) -> None:
        jobs.enqueue(Told(what="break"))
        jobs.enqueue(Noop())
        summary = run_jobs()
        assert (summary.waiting, summary.succeeded) == (1, 1)
        assert "IntegrityError" in summary.errors[0]
        assert violations() == []

    def test_an_atomic_failure_leaves_nothing(self) -> None:
        @jobs.handler(Told, atomic=True, max_attempts=1)
        def write(ctx: jobs.Context, payload: Told) -> None:
            Queue.objects.create(name=payload.what)
            if payload.what == "bad":
                raise ValueError("bad")

        try:
            jobs.enqueue(Told(what="good"))
            jobs.enqueue(Told(what="bad"))
            summary = run_jobs()
        finally:
            registry.unregister("kit.told")
        assert (summary.succeeded, summary.failed) == (1, 1)
        assert Queue.objects.filter(name="good").exists()
        assert not Queue.objects.filter(name="bad").exists()

    def test_a_snooze_uses_no_attempt_up(self, told: list[str]) -> None:
        jobs.enqueue(Told(what="snooze"))
        with freeze_clock() as clock:
            assert run_jobs().waiting == 1
            clock.tick(timedelta(minutes=1))
            assert run_jobs().succeeded == 1
        assert jobs.Job.objects.get().failures == 0

    def test_only_the_queues_that_are_named(self) -> None:
        jobs.enqueue(Noop(), queue="a")
        jobs.enqueue(Noop(), queue="b")
        assert len(run_jobs(["b"])) == 1
        assert jobs.Job.objects.get(state="succeeded").queue == "b"

    def test_an_expired_job_does_not_run(self, told: list[str]) -> None:
        jobs.enqueue(Told(), expires=5)
        with freeze_clock() as clock:
            clock.tick(10)
            assert len(run_jobs()) == 0
        assert jobs.Job.objects.get().state == "expired"

    def test_no_executor_is_left(self) -> None:
        run_jobs()
        assert not Lease.objects.filter(dead_at=None).exists()


@pytest.mark.django_db
def test_async_handlers_see_the_tests_transaction() -> None:
    @jobs.handler(Told)
    async def write(ctx: jobs.Context, payload: Told) -> int:
        return await sync_to_async(Queue.objects.filter(name="mine").count)()

    Queue.objects.create(name="mine")
    try:
        jobs.enqueue(Told())
        jobs.enqueue(AsyncSleep(seconds=0.0))
        assert run_jobs().succeeded == 2
    finally:
        registry.unregister("kit.told")
    assert jobs.Job.objects.get(kind="kit.told").result == 1


@pytest.mark.django_db
def test_a_job_that_never_ends_is_stopped_by_the_limit() -> None:
    @jobs.handler(Told)
    def circle(ctx: jobs.Context, payload: Told) -> None:
        raise jobs.Snooze(0)

    try:
        jobs.enqueue(Told())
        with pytest.raises(AssertionError, match="after 5 attempts there are still jobs due"):
            run_jobs(limit=5)
    finally:
        registry.unregister("kit.told")


class InADjangoTestCase(TestCase):
    def test_jobs_run(self) -> None:
        jobs.enqueue(Echo(text="hello"))
        assert run_jobs().succeeded == 1
        assert jobs.Job.objects.get().result == "hello"


@pytest.mark.django_db
class TestEnqueued:
    def test_finds_by_fields(self) -> None:
        moment = datetime(2026, 1, 2, tzinfo=UTC)
        jobs.handler(Told)(lambda ctx, payload: None)
        try:
            jobs.enqueue(Told(what="a"))
            second = jobs.enqueue(Told(what="b", at=moment))
        finally:
            registry.unregister("kit.told")
        assert len(enqueued(Told)) == 2
        assert assert_enqueued(Told, at=moment).id == second.id
        assert assert_enqueued(Told).id == second.id
        assert_not_enqueued(Told, what="c")
        assert_not_enqueued(Noop)

    def test_says_what_there_is_instead(self) -> None:
        jobs.enqueue(Echo(text="one"))
        with pytest.raises(AssertionError, match=r"test.echo with .*two.*there are .*one"):
            assert_enqueued(Echo, text="two")
        with pytest.raises(AssertionError, match="none at all"):
            assert_enqueued(Noop)
        with pytest.raises(AssertionError, match=r"was enqueued: .*one"):
            assert_not_enqueued(Echo)

    def test_an_unknown_field_is_a_mistake_of_the_test(self) -> None:
        with pytest.raises(TypeError, match="no field 'txt'; did you mean 'text'"):
            assert_enqueued(Echo, txt="one")


@pytest.mark.usefixtures("database")
class TestClock:
    def clock(self) -> datetime:
        with connection.cursor() as cursor:
            cursor.execute("SELECT jobs_clock()")
            [moment] = cursor.fetchone() or [None]
        assert isinstance(moment, datetime)
        return moment

    def test_stands_still_and_ticks(self) -> None:
        moment = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
        with freeze_clock(moment) as clock:
            assert self.clock() == moment
            assert jobs.Job.objects.get(id=jobs.enqueue(Noop()).id).created_at == moment
            clock.tick(1.5)
            assert self.clock() == clock.now == moment + timedelta(seconds=1.5)
            with freeze_clock():
                assert self.clock() == clock.now
        assert abs(self.clock() - datetime.now(UTC)) < timedelta(minutes=1)

    def test_goes_on_after_an_error(self) -> None:
        with (
            pytest.raises(ValueError, match="inside"),
            freeze_clock(datetime(2031, 1, 1, tzinfo=UTC)),
        ):
            raise ValueError("inside")
        assert self.clock().year < 2031

    def test_a_moment_without_a_time_zone_is_refused(self) -> None:
        with pytest.raises(ValueError, match="time zone"), freeze_clock(datetime(2031, 1, 1)):
            pass


@pytest.mark.django_db
class TestFailNext:
    def test_fails_as_often_as_planned(self) -> None:
        jobs.enqueue(Flaky(failures=0))
        with fail_next(Flaky, ConnectionError("planned"), times=2):
            summary = run_jobs()
        assert [run.state for run in summary.runs] == ["pending", "pending", "succeeded"]
        assert summary.errors[:2] == ["ConnectionError: planned"] * 2

    def test_a_failure_that_does_not_happen_fails_the_test(self) -> None:
        with (
            pytest.raises(AssertionError, match="1 of 1 planned failures"),
            fail_next(Noop, OSError()),
        ):
            pass
        jobs.enqueue(Noop())
        assert run_jobs().succeeded == 1

    def test_works_for_async_handlers(self) -> None:
        jobs.enqueue(AsyncSleep(seconds=0.0))
        with fail_next(AsyncSleep, jobs.Snooze(0)):
            assert [run.state for run in run_jobs().runs] == ["pending", "succeeded"]


@pytest.mark.usefixtures("database")
class TestCheckHandler:
    def test_a_good_handler_passes(self, told: list[str]) -> None:
        assert check_handler(Told(what="good")) == "good"
        assert told == ["good", "good"]

    @pytest.mark.parametrize(
        ("what", "message"),
        [
            ("vary", "gave '2' instead of '1'"),
            ("once", "the repeat ended"),
            ("break", "first attempt"),
        ],
    )
    def test_a_bad_one_does_not(self, told: list[str], what: str, message: str) -> None:
        with pytest.raises(AssertionError, match=message):
            check_handler(Told(what=what))

    def test_a_payload_that_changes_on_its_way_is_refused(self, told: list[str]) -> None:
        class Sly(Told, kind="kit.sly"):
            @classmethod
            def from_text(cls, text: str, version: int, place: Any = None) -> Any:
                return cls(what="else")

        jobs.handler(Sly)(lambda ctx, payload: None)
        try:
            with pytest.raises(AssertionError, match="comes back from JSON as"):
                check_handler(Sly(what="this"))
        finally:
            registry.unregister("kit.sly")

    def test_other_jobs_are_left_alone(self, told: list[str]) -> None:
        jobs.enqueue(Noop())
        check_handler(Told())
        assert jobs.Job.objects.get(kind="test.noop").attempt == 0
