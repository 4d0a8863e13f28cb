"""Running one claim: whatever the handler does, it becomes one of the endings."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DataError, InternalError, OperationalError, transaction
from psycopg import errors

import jobs
from jobs import registry
from jobs.context import Signal
from jobs.engine import runner, settler
from jobs.engine.claims import Ended, Success
from jobs.models import Attempt, DeadLetter, Lease
from tests.jobs.factories import WORKER, a_claim, ended, row, settle, sql
from tests.specimens.handlers import AsyncSleep, Echo

pytestmark = pytest.mark.django_db


class Told(jobs.Payload, kind="test.told"):
    pass


Do = Callable[[jobs.Context], Any]


def obeying(coroutine: Any, signal: Signal) -> Any:
    """What an executor does with a coroutine, on a loop of its own."""
    return asyncio.run(runner.obey(coroutine, signal))


@pytest.fixture
def told() -> Iterator[Callable[..., Any]]:
    """Runs a job whose handler does as it is told, and answers what is to be settled."""

    def run(do: Do, reason: str = "", **rules: Any) -> Any:
        @jobs.handler(Told, backoff=jobs.backoff.Immediate(), **rules)
        def handle(ctx: jobs.Context, payload: Told) -> Any:
            return do(ctx)

        return runner.run(a_claim(Told()), Signal(lambda: reason), obeying, WORKER)

    yield run
    registry.unregister("test.told")


def raising(error: BaseException) -> Do:
    def do(ctx: jobs.Context) -> None:
        raise error

    return do


def test_what_the_handler_returns_is_the_result() -> None:
    outcome = runner.run(a_claim(Echo(text="hé")), Signal(str), obeying, WORKER)
    assert isinstance(outcome, Success) and outcome.result == '"hé"'


def test_a_coroutine_is_awaited() -> None:
    outcome = runner.run(a_claim(AsyncSleep(seconds=0)), Signal(str), obeying, WORKER)
    assert isinstance(outcome, Success) and outcome.result == "null"


@pytest.mark.parametrize(
    ("error", "state", "reason", "fault"),
    [
        (ValueError("no"), "pending", "", "ValueError"),
        (jobs.Unrecoverable("no"), "failed", "unrecoverable", "jobs.outcomes.Unrecoverable"),
        (jobs.RetryAfter(60), "pending", "", "jobs.outcomes.RetryAfter"),
        (SystemExit(3), "pending", "", "SystemExit"),
        (KeyboardInterrupt(), "pending", "", "KeyboardInterrupt"),
        (GeneratorExit(), "pending", "", "GeneratorExit"),
        (RecursionError(), "pending", "", "RecursionError"),
        (MemoryError(), "pending", "", "MemoryError"),
        (BaseException("b"), "pending", "", "BaseException"),
    ],
)
def test_what_the_handler_raises_is_an_ending(
    told: Any, error: BaseException, state: str, reason: str, fault: str
) -> None:
    outcome = told(raising(error))
    assert isinstance(outcome, Ended) and outcome.fault is not None
    assert (outcome.move.state, outcome.move.reason) == (state, reason)
    assert outcome.fault.error_class == fault
    assert "raise error" in outcome.fault.traceback
    assert "jobs/engine/runner.py" not in outcome.fault.traceback


def test_a_snooze_leaves_no_fault(told: Any) -> None:
    outcome = told(raising(jobs.Snooze(30, "not yet")))
    assert (outcome.fault, outcome.move.delay, outcome.move.why) == (None, 30, "not yet")
    assert outcome.move.failed == 0


def test_a_retry_after_is_kept(told: Any) -> None:
    assert told(raising(jobs.RetryAfter(60))).move.delay == 60


@pytest.mark.parametrize(
    ("reason", "state", "failed"),
    [
        ("timeout", "pending", 1),
        ("cancelled", "cancelled", 0),
        ("preempted", "pending", 0),
        ("shutdown", "pending", 0),
        ("lease_lost", "pending", 0),
    ],
)
def test_a_checkpoint_ends_an_attempt_that_was_told_to_stop(
    told: Any, reason: str, state: str, failed: int
) -> None:
    outcome = told(lambda ctx: ctx.checkpoint(), reason)
    assert (outcome.move.state, outcome.move.failed, outcome.move.why) == (state, failed, reason)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        "\0",
        "\ud800",
        object(),
        {1: {2: "\0"}},
        "x" * 70_000,
        pytest.param(10**5000, id="huge"),
    ],
)
def test_a_result_that_cannot_be_stored_is_the_jobs_own_failure(told: Any, value: Any) -> None:
    outcome = told(lambda ctx: value)
    assert (outcome.move.state, outcome.move.reason) == ("failed", "bad_result")
    assert outcome.fault.error_class == "UnstorableResult"


def test_an_error_that_cannot_be_shown_is_settled_all_the_same(told: Any) -> None:
    class Shy(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    outcome = told(raising(Shy()))
    assert outcome.fault.message == "(its message cannot be shown)"


def test_a_policy_that_fails_does_not_keep_the_job(told: Any) -> None:
    class Broken:
        def delay(self, failures: int, draw: float = 0.0) -> float:
            raise ZeroDivisionError

    @jobs.handler(Told, backoff=Broken())
    def handle(ctx: jobs.Context, payload: Told) -> None:
        raise ValueError

    outcome = runner.run(a_claim(Told()), Signal(str), obeying, WORKER)
    assert isinstance(outcome, Ended) and outcome.move.failed == 1
    assert outcome.move.state == "pending"


# ---- Jobs that nobody here understands


def test_an_unknown_kind_ends_as_a_dead_letter_that_says_so() -> None:
    claim = a_claim()
    sql("UPDATE jobs_job SET kind = 'gone.kind'")
    claim.kind = "gone.kind"
    outcome = runner.run(claim, Signal(str), obeying, WORKER)
    assert isinstance(outcome, Ended)
    settler.write([outcome], WORKER)
    letter = DeadLetter.objects.get()
    assert (letter.reason, row(claim.id).reason) == ("unknown_kind", "unknown_kind")
    assert "no handler is registered for kind 'gone.kind'" in letter.summary


@pytest.mark.parametrize("payload", ['{"text": 5}', "{}", '{"text": "x", "more": 1}', "[]", "5"])
def test_a_payload_that_no_longer_fits_ends_as_a_dead_letter(payload: str) -> None:
    claim = a_claim(Echo(text="x"))
    claim.payload = payload
    outcome = runner.run(claim, Signal(str), obeying, WORKER)
    assert isinstance(outcome, Ended)
    settler.write([outcome], WORKER)
    assert DeadLetter.objects.get().reason == "bad_payload"
    assert Attempt.objects.get().error_class == "InvalidPayload"


# ---- Atomic handlers


def an_effect() -> None:
    Lease.objects.create(worker="effect", queues=[], until="2040-01-01T00:00:00Z")


def effects() -> int:
    return Lease.objects.filter(worker="effect").count()


def test_an_atomic_handlers_effect_and_completion_are_one(told: Any) -> None:
    assert told(lambda ctx: an_effect(), atomic=True) is None
    assert (jobs.Job.objects.get().state, effects()) == ("succeeded", 1)


def test_an_atomic_handlers_failure_undoes_its_effect(told: Any) -> None:
    def do(ctx: jobs.Context) -> None:
        an_effect()
        raise ValueError

    outcome = told(do, atomic=True)
    assert (outcome.move.state, effects()) == ("pending", 0)


def test_an_atomic_handler_that_lost_its_job_leaves_nothing(told: Any) -> None:
    def do(ctx: jobs.Context) -> None:
        an_effect()
        sql("UPDATE jobs_job SET token = gen_random_uuid() WHERE id = %s", [ctx.job_id])

    with transaction.atomic():
        assert told(do, atomic=True) is None
    assert (jobs.Job.objects.get().state, effects()) == ("running", 0)


# ---- What the handler is given


def breaking_off(error: Exception, cause: Exception) -> Callable[..., Any]:
    error.__cause__ = cause

    def fail(*_: object) -> None:
        raise error

    return fail


PASSING = [
    (OperationalError("lock timeout"), errors.LockNotAvailable()),
    (OperationalError("statement timeout"), errors.QueryCanceled()),
    (InternalError("read-only"), errors.ReadOnlySqlTransaction()),
    (OperationalError("deadlock"), errors.DeadlockDetected()),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("error", "cause"), PASSING)
def test_an_atomic_completion_that_the_database_breaks_off_is_nobodys_failure(
    told: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, cause: Exception
) -> None:
    monkeypatch.setattr(runner, "settle_successes", breaking_off(error, cause))
    outcome = told(lambda ctx: an_effect(), atomic=True)
    assert isinstance(outcome, Ended) and outcome.fault
    assert (outcome.move.attempt, outcome.move.failed, outcome.move.released) == ("lost", 0, 1)
    assert outcome.fault.error_class == "DatabaseLost" and outcome.move.delay > 0
    assert effects() == 0


def test_an_atomic_result_that_is_refused_is_a_bad_result(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = breaking_off(DataError("no"), errors.UntranslatableCharacter())
    monkeypatch.setattr(runner, "settle_successes", refused)
    outcome = told(lambda ctx: an_effect(), atomic=True)
    assert (outcome.move.state, outcome.move.reason) == ("failed", "bad_result")


def test_what_an_atomic_handler_is_refused_itself_is_its_failure(told: Any) -> None:
    outcome = told(raising(OperationalError("of another database")), atomic=True)
    assert (outcome.move.attempt, outcome.move.failed) == ("failed", 1)
    lock = breaking_off(OperationalError("lock timeout"), errors.LockNotAvailable())
    outcome = told(lock, atomic=True)
    assert (outcome.move.attempt, outcome.move.failed) == ("failed", 1)


def test_the_context_tells_of_the_attempt(told: Any) -> None:
    seen: list[Any] = []
    told(lambda ctx: seen.append((ctx.kind, ctx.attempt, ctx.is_last_attempt)), max_attempts=1)
    told(lambda ctx: seen.append((ctx.kind, ctx.failures, ctx.is_last_attempt)), max_attempts=2)
    assert seen == [("test.told", 1, True), ("test.told", 0, False)]


def test_progress_is_stored_and_ends_an_attempt_that_lost_its_job(told: Any) -> None:
    def do(ctx: jobs.Context) -> None:
        ctx.progress(1, 10, "one")
        ctx.progress(2, 10, "too soon to be written")
        assert row(ctx.job_id).progress == {"done": 1, "total": 10, "note": "one"}
        sql("UPDATE jobs_job SET token = gen_random_uuid() WHERE id = %s", [ctx.job_id])
        ctx.progress(10, 10)
        raise AssertionError("unreachable")

    assert told(do).move.why == "lease_lost"


def test_the_traceback_of_a_stale_attempt_goes_nowhere() -> None:
    claim = a_claim()
    settle(ended(claim, "released"))
    settler.write([ended(claim)], WORKER)
    assert not Attempt.objects.exists() and sys.exc_info() == (None, None, None)
