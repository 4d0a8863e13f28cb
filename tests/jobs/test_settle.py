"""Settling: how attempts end on their rows, many per statement, and only by who holds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import django.db
import psycopg
import pytest
from django.db import (
    DatabaseError,
    DataError,
    OperationalError,
    connection,
)

import jobs
from jobs import registry
from jobs.engine import claims, settler
from jobs.engine import sql as engine_sql
from jobs.engine.admission import Closing
from jobs.engine.claims import Claim, Ended, Success
from jobs.ids import uuid7
from jobs.models import Attempt, DeadLetter
from jobs.outcomes import RELEASE_LIMIT, Fault, Move
from jobs.states import JobState
from tests.jobs.factories import (
    WORKER,
    a_claim,
    a_job,
    an_executor,
    claim_again,
    ended,
    move,
    row,
    settle,
    sql,
    state,
    succeed,
)
from tests.specimens.handlers import Fail, Noop
from tests.wait import wait_until

pytestmark = pytest.mark.django_db


def stale(claim: Claim) -> Claim:
    """A claim that has been taken away: the job runs for somebody else by now."""
    settle(ended(claim, "released"))
    claim_again(claim.id)
    return claim


# ---- Success


def test_a_success_is_on_the_row() -> None:
    claim = a_claim()
    assert succeed(claim, result='{"a": [1, null, "ü"]}') == {claim.id}
    job = row(claim.id)
    assert (job.state, job.result, job.owner, job.error) == (
        "succeeded",
        {"a": [1, None, "ü"]},
        None,
        "",
    )
    assert job.finished_at is not None and job.token == claim.token
    assert job.history[-1][3] == WORKER
    assert not Attempt.objects.exists() and not DeadLetter.objects.exists()


def test_a_success_after_failures_forgets_their_error_and_keeps_their_attempts() -> None:
    claim = a_claim(Fail())
    settle(ended(claim))
    again = claim_again(claim.id)
    succeed(again)
    job = row(claim.id)
    assert (job.state, job.error, job.failures, job.attempt) == ("succeeded", "", 1, 2)
    assert Attempt.objects.get(job_id=claim.id).number == 1


def test_a_success_after_a_retry_by_hand_is_accepted() -> None:
    claim = a_claim()
    settle(ended(claim, "unrecoverable"))
    sql("UPDATE jobs_job SET state = 'pending', finished_at = NULL WHERE id = %s", [claim.id])
    assert row(claim.id).reason == "unrecoverable"
    assert succeed(claim_again(claim.id)) == {claim.id}
    assert row(claim.id).reason == ""


def test_a_mixed_batch_settles_what_is_held_and_leaves_the_rest() -> None:
    held = [a_claim() for _ in range(3)]
    lost = [stale(a_claim()) for _ in range(2)]
    gone = a_claim()
    succeed(gone)
    forged = a_claim()
    forged.token = uuid7()
    batch = [lost[0], held[0], gone, held[1], lost[1], forged, held[2]]
    assert succeed(*batch) == {claim.id for claim in held}
    assert [state(claim.id) for claim in lost] == ["running", "running"]
    assert state(forged.id) == "running"


def test_a_success_is_accepted_once() -> None:
    claim = a_claim()
    assert succeed(claim, result="1") == {claim.id}
    assert succeed(claim, result="2") == set()
    assert row(claim.id).result == 1


def test_a_stale_claim_stays_out_after_its_job_was_claimed_again() -> None:
    old = a_claim()
    settle(ended(old, "released"))
    new = claim_again(old.id)
    assert (old.attempt, new.attempt) == (1, 2)
    assert succeed(old) == set() and settle(ended(old)) == {}
    assert succeed(new) == {new.id}
    assert (row(new.id).failures, Attempt.objects.count()) == (0, 0)


# ---- Other endings


def test_a_failure_with_attempts_left_waits_and_leaves_an_attempt() -> None:
    claim = a_claim(Fail())
    fault = Fault("app.Broken", "it broke", "Traceback …")
    assert settle(ended(claim, fault=fault)) == {claim.id: JobState.PENDING}
    job = row(claim.id)
    assert (job.failures, job.error, job.reason, job.wait) == (1, "app.Broken: it broke", "", 1)
    assert (job.owner, job.queued_at, job.finished_at) == (None, None, None)
    attempt = Attempt.objects.get(job_id=claim.id)
    assert (attempt.number, attempt.outcome, attempt.worker) == (1, "failed", WORKER)
    assert (attempt.error_class, attempt.message) == ("app.Broken", "it broke")
    assert attempt.traceback == "Traceback …"
    assert attempt.started_at is not None and attempt.started_at <= attempt.ended_at
    assert not DeadLetter.objects.exists()


def test_the_last_failure_is_buried() -> None:
    claim = a_claim(Fail(), tenant="acme", max_attempts=1)
    assert settle(ended(claim)) == {claim.id: JobState.FAILED}
    job = row(claim.id)
    assert (job.reason, job.failures) == ("exhausted", 1) and job.finished_at is not None
    letter = DeadLetter.objects.get()
    assert (letter.job_id, letter.state, letter.reason) == (claim.id, "open", "exhausted")
    assert (letter.kind, letter.queue, letter.tenant) == ("test.fail", "default", "acme")
    assert (letter.attempt, letter.summary) == (1, "ValueError: as told")
    assert letter.expires_at - letter.opened_at == timedelta(days=30)


def test_the_same_error_has_the_same_fingerprint() -> None:
    def mark(message: str, place: str = "x.py") -> str:
        claim = a_claim(max_attempts=1)
        settle(ended(claim, fault=Fault("E", message, f'File "{place}", line 9, in f')))
        return DeadLetter.objects.get(job_id=claim.id).fingerprint

    first = mark("order 17 of 'ann' is gone")
    assert first == mark("order 4711 of 'bob' is gone")
    assert first != mark("order 17 of 'ann' is late")
    assert first != mark("order 17 of 'ann' is gone", "y.py")


@pytest.fixture
def letterless() -> Any:
    class Letterless(jobs.Payload, kind="test.letterless"):
        pass

    @jobs.handler(Letterless, dead_letter=False, max_attempts=1)
    def run(ctx: jobs.Context, payload: Letterless) -> None: ...

    yield Letterless
    registry.unregister("test.letterless")


def test_a_kind_may_want_no_dead_letter(letterless: type[jobs.Payload]) -> None:
    claim = a_claim(letterless())
    assert settle(ended(claim)) == {claim.id: JobState.FAILED}
    assert not DeadLetter.objects.exists()
    assert Attempt.objects.count() == 1


def test_a_job_that_fails_again_has_one_open_dead_letter_about_the_new_failure() -> None:
    claim = a_claim(max_attempts=1)
    settle(ended(claim, fault=Fault("First", "one")))
    first = DeadLetter.objects.get()
    move(claim.id, "pending")
    settle(ended(claim_again(claim.id), fault=Fault("Second", "two")))
    second = DeadLetter.objects.get()
    assert (second.id, second.attempt, second.summary) == (first.id, 2, "Second: two")
    assert second.fingerprint != first.fingerprint


def test_after_a_closed_dead_letter_a_new_one_is_opened() -> None:
    claim = a_claim(max_attempts=1)
    settle(ended(claim))
    sql("UPDATE jobs_deadletter SET state = 'retried', closed_at = jobs_clock()")
    move(claim.id, "pending")
    settle(ended(claim_again(claim.id)))
    assert sorted(DeadLetter.objects.values_list("state", flat=True)) == ["open", "retried"]


def test_a_snooze_uses_up_nothing() -> None:
    claim = a_claim()
    settle(ended(claim, "snoozed", floor=90.0, why="snoozed for 90 s", fault=None))
    job = row(claim.id)
    assert (job.state, job.failures, job.crashes, job.releases, job.wait) == ("pending", 0, 0, 0, 1)
    [(seconds,)] = sql(
        "SELECT extract(epoch FROM run_at - jobs_clock())::float8 FROM jobs_job WHERE id = %s",
        [claim.id],
    )
    assert 85 < seconds <= 90
    assert job.history[-1][4] == "snoozed for 90 s"
    assert abs(job.rank - job.run_at.timestamp() * 1000) <= 1
    assert not Attempt.objects.exists()


def test_a_release_is_counted_and_ready_at_once() -> None:
    claim = a_claim(priority=100)
    settle(ended(claim, "released", fault=None))
    job = row(claim.id)
    assert (job.state, job.releases, job.failures, job.wait) == ("pending", 1, 0, 0)
    assert abs(job.rank - (job.run_at.timestamp() * 1000 - 100 * 3000)) <= 1


def test_a_job_released_too_often_is_given_up() -> None:
    job_id = a_job("queued")
    sql("UPDATE jobs_job SET releases = %s WHERE id = %s", [RELEASE_LIMIT - 1, job_id])
    settle(ended(claim_again(job_id), "released", fault=None))
    job = row(job_id)
    assert (job.state, job.reason, job.releases) == ("failed", "released_too_often", RELEASE_LIMIT)
    assert DeadLetter.objects.get().reason == "released_too_often"


@pytest.mark.parametrize("ending", ["failed", "snoozed", "released", "crashed", "lost"])
def test_a_cancel_request_wins_over_another_attempt(ending: Any) -> None:
    claim = a_claim()
    sql("UPDATE jobs_job SET cancel_requested_at = jobs_clock() WHERE id = %s", [claim.id])
    assert settle(ended(claim, ending)) == {claim.id: JobState.CANCELLED}
    assert row(claim.id).finished_at is not None
    assert not DeadLetter.objects.exists()


def test_a_cancel_request_does_not_undo_a_success() -> None:
    claim = a_claim()
    sql("UPDATE jobs_job SET cancel_requested_at = jobs_clock() WHERE id = %s", [claim.id])
    assert succeed(claim) == {claim.id}


def test_endings_of_many_sorts_share_one_statement() -> None:
    sorts: list[tuple[Any, str]] = [
        ("failed", "pending"),
        ("unrecoverable", "failed"),
        ("snoozed", "pending"),
        ("timeout", "pending"),
        ("crashed", "pending"),
        ("released", "pending"),
        ("cancelled", "cancelled"),
        ("unknown_kind", "failed"),
        ("bad_payload", "failed"),
        ("bad_result", "failed"),
    ]
    held = [(a_claim(), ending, target) for ending, target in sorts]
    lost = [stale(a_claim()) for _ in range(2)]
    batch = [ended(claim, ending) for claim, ending, _ in held]
    batch[3:3] = [ended(claim, "unrecoverable") for claim in lost]
    moved = settle(*batch)
    assert moved == {claim.id: JobState(target) for claim, _, target in held}
    assert DeadLetter.objects.count() == 4
    assert not Attempt.objects.filter(job_id__in=[claim.id for claim in lost]).exists()


def test_texts_that_postgresql_refuses_are_made_fit() -> None:
    claim = a_claim(max_attempts=1)
    fault = Fault("E\0" * 300, "m\0\ud800" * 3000, "t\0" * 30_000 + "the end")
    settle(ended(claim, fault=fault, why="w\0" * 200))
    attempt = Attempt.objects.get()
    assert "\0" not in attempt.message and len(attempt.message) <= claims.MESSAGE_LIMIT
    assert attempt.traceback.endswith("the end")
    assert len(attempt.traceback) <= claims.TRACEBACK_LIMIT
    assert len(row(claim.id).error) <= 1000 and len(DeadLetter.objects.get().summary) <= 300


def test_a_job_of_an_unknown_kind_ends_as_a_dead_letter_that_says_so() -> None:
    claim = a_claim()
    claim.kind = "gone.kind"
    sql("UPDATE jobs_job SET kind = 'gone.kind' WHERE id = %s", [claim.id])
    settle(ended(claim, "unknown_kind", fault=Fault("UnknownKind", "no handler …")))
    letter = DeadLetter.objects.get()
    assert (letter.kind, letter.reason) == ("gone.kind", "unknown_kind")


# ---- The answer to a COMMIT was lost


def test_already_ours_knows_our_write_from_anothers() -> None:
    ours, theirs, unwritten = a_claim(), a_claim(), a_claim()
    succeed(ours)
    old = theirs.token
    settle(ended(theirs, "released"))
    succeed(claim_again(theirs.id))
    asked = [
        (ours.id, ours.token, JobState.SUCCEEDED),
        (theirs.id, old, JobState.SUCCEEDED),
        (unwritten.id, unwritten.token, JobState.SUCCEEDED),
    ]
    assert claims.already_ours(asked) == {ours.id}


def test_a_claim_whose_answer_was_lost_is_found_by_its_token() -> None:
    token, owner = uuid7(), an_executor()
    ids = [a_job("queued") for _ in range(3)]
    claims.claim("default", ids[:2], owner, WORKER, token)
    found = claims.claimed(token, ids)
    assert [claim.id for claim in found] == sorted(ids[:2])
    assert {claim.token for claim in found} == {token}
    assert claims.claimed(uuid7(), ids) == []


# ---- The settler's batches


@pytest.mark.django_db(transaction=True)
def test_one_bad_result_is_found_and_fails_alone() -> None:
    good = [a_claim() for _ in range(6)]
    bad = a_claim()
    batch: list[settler.Outcome] = [Success(claim, '"ok"') for claim in good]
    batch.insert(4, Success(bad, '"\\u0000"'))
    settler.write(batch, WORKER)
    assert {state(claim.id) for claim in good} == {"succeeded"}
    job = row(bad.id)
    assert (job.state, job.reason) == ("failed", "bad_result")
    assert "refused the result" in Attempt.objects.get().message
    assert DeadLetter.objects.get().job_id == bad.id


@pytest.mark.django_db(transaction=True)
def test_one_bad_ending_does_not_hold_up_the_others() -> None:
    good = [a_claim() for _ in range(4)]
    bad = a_claim()
    impossible = Ended(bad.id, bad.token, bad.kind, Move(JobState.PENDING, "", delay=float("nan")))
    assert settler.write([*(ended(claim) for claim in good), impossible], WORKER) == []
    assert {row(claim.id).failures for claim in good} == {1}
    assert (state(bad.id), row(bad.id).reason) == ("failed", "bad_result")


@pytest.mark.django_db(transaction=True)
def test_a_failure_whose_words_are_refused_is_a_failure_without_them() -> None:
    claim = a_claim(Fail())
    said = ended(claim, fault=Fault("E", "m"))
    refused = replace(said, move=replace(said.move, attempt="failed\0"))
    assert settler.write([refused], WORKER) == []
    assert row(claim.id).reason == "bad_result"
    claim = a_claim(Fail())
    said = ended(claim, fault=Fault("E", "m"))
    closing = Closing("kind:x\0", "default", None, None, 1.0)
    assert settler.write([replace(said, closing=closing)], WORKER) == []
    assert (state(claim.id), row(claim.id).failures) == ("pending", 1)
    assert "refused what was said" in row(claim.id).error


def test_a_stale_outcome_is_reported_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    lost, held = stale(a_claim()), a_claim()
    settler.write([Success(lost, "1"), Success(held, "2")], WORKER)
    assert str(lost.id) in caplog.text and str(held.id) not in caplog.text
    assert row(held.id).result == 2


def test_an_outcome_written_twice_is_no_stale_one(caplog: pytest.LogCaptureFixture) -> None:
    claim = a_claim()
    settler.write([Success(claim, "1")], WORKER)
    settler.write([Success(claim, "1")], WORKER)
    assert caplog.text == ""


def refusing(number: str) -> DatabaseError:
    """The error of a SQLSTATE, in the class that Django gives it."""
    cause = psycopg.errors.lookup(number)("as told")
    wrapped = next(
        found
        for found in type(cause).__mro__
        if found.__module__ == "psycopg" and hasattr(django.db, found.__name__)
    )
    error: DatabaseError = getattr(django.db, wrapped.__name__)("as told")
    error.__cause__ = cause
    return error


WAITING = {
    "55P03": "lock_timeout",
    "57014": "statement_timeout",
    "25006": "read-only",
    "40001": "serialization failure",
    "40P01": "deadlock",
    "53300": "too many connections",
    "57P01": "shutdown",
    "08006": "connection failure",
    "26000": "a prepared statement that is not there",
    "42P05": "a prepared statement that is there already",
    "42P01": "a missing table",
    "XX000": "something else",
}
REFUSED = ("22P05", "22008", "23514", "54001", "54000")


@pytest.mark.parametrize("number", [*WAITING, ""])
def test_what_says_nothing_about_the_value_is_raised(
    monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    claim, other = a_claim(), a_claim()
    error = refusing(number) if number else OperationalError("the server closed the connection")

    def fail(*_: object) -> object:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(claims, "settle_successes", fail)
        patch.setattr(claims, "settle_endings", fail)
        for outcome in (Success(claim, "1"), ended(other)):
            with pytest.raises(type(error)):
                settler.write([outcome], WORKER)
    assert [state(one.id) for one in (claim, other)] == ["running", "running"]


@pytest.mark.parametrize("number", REFUSED)
def test_a_refused_value_is_that_jobs_failure(monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    claim = a_claim()

    def fail(*_: object) -> object:
        raise refusing(number)

    with monkeypatch.context() as patch:
        patch.setattr(claims, "settle_successes", fail)
        settler.write([Success(claim, "1")], WORKER)
    assert (state(claim.id), row(claim.id).reason) == ("failed", "bad_result")


class Line:
    """A settler that is stepped by hand, on a database that fails as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails: Callable[[Sequence[Success]], str] = lambda _: ""
        self.freed: list[int] = []
        self.sizes: list[int] = []
        self.settler = settler.Settler(WORKER, lambda: False, self.freed.append)
        original = claims.settle_successes

        def settle(successes: Sequence[Success], worker: str) -> Any:
            if successes:
                self.sizes.append(len(successes))
            if number := self.fails(successes):
                raise refusing(number)
            return original(successes, worker)

        monkeypatch.setattr(claims, "settle_successes", settle)
        monkeypatch.setattr(engine_sql, "close", lambda: None)

    def put(self, *claimed: Claim) -> None:
        for number, claim in enumerate(claimed):
            self.settler.put(Success(claim, "1"), number)

    def is_ready(self) -> bool:
        return self.settler.is_ready

    def step(self) -> float:
        self.settler._gather()
        return self.settler._write_some()


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    return Line(monkeypatch)


@pytest.mark.parametrize("number", ["25006", "53300", "57P03"])
def test_while_the_server_is_away_the_settler_keeps_everything(line: Line, number: str) -> None:
    held = [a_claim() for _ in range(3)]
    line.put(*held)
    line.fails = lambda _: number
    pauses = [line.step() for _ in range(12)]
    assert pauses[0] < pauses[-1] == settler.LONGEST_PAUSE, "it backs off, and not for ever"
    assert not line.is_ready() and line.freed == []
    assert set(line.sizes) == {3}, "it halves nothing in vain"
    line.fails = lambda _: ""
    assert line.step() == 0.0 and line.is_ready()
    assert [state(claim.id) for claim in held] == ["succeeded"] * 3
    assert sorted(line.freed) == [0, 1, 2]


@pytest.mark.parametrize("number", ["55P03", "57014", "XX000"])
def test_one_that_cannot_be_written_waits_apart_from_the_others(line: Line, number: str) -> None:
    held = [a_claim() for _ in range(8)]
    bad = held[3]
    line.put(*held)
    line.fails = lambda given: number if any(s.claim.id == bad.id for s in given) else ""
    wait_until(lambda: line.step() is None or len(line.freed) == 7, interval=0)
    assert [state(c.id) for c in held if c is not bad] == ["succeeded"] * 7
    late = a_claim()
    line.put(late)
    wait_until(lambda: line.step() is None or state(late.id) == "succeeded", interval=0)
    assert state(bad.id) == "running"
    line.fails = lambda _: ""
    wait_until(lambda: line.step() is None or state(bad.id) == "succeeded", interval=0.01)
    assert len(line.freed) == 9 and not line.settler._apart


def test_the_settler_logs_a_cause_that_lasts_once(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    line.put(a_claim())
    line.fails = lambda _: "25006"
    for _ in range(5):
        line.step()
    assert len([r for r in caplog.records if "results wait" in r.message]) == 1


def test_results_of_every_shape_come_back_as_they_were() -> None:
    values: list[Any] = [
        None,
        True,
        0,
        -1.5,
        10**30,
        "",
        "\\u0000 as text",
        "a\tb\nc",
        [],
        {"ü": [{}]},
    ]
    held = [a_claim(Noop()) for _ in values]
    pairs = zip(held, values, strict=True)
    claims.settle_successes([Success(c, json.dumps(v)) for c, v in pairs], WORKER)
    assert [row(claim.id).result for claim in held] == values


def test_the_database_itself_refuses_what_the_settler_bisects() -> None:
    claim = a_claim()
    with pytest.raises(DataError), connection.constraint_checks_disabled():
        succeed(claim, result='"\\u0000"')
