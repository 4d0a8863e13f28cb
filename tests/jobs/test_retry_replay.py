"""Again: the same job by a retry, its payload in a new job by a replay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

import jobs
from jobs import registry
from jobs.engine.reconcile import expire
from jobs.models import DeadLetter
from jobs.operate import batches
from jobs.operate.cancel import cancel
from jobs.operate.replay import replay
from jobs.operate.retry import retry
from jobs.states import FINAL_STATES, RETRYABLE_STATES, JobState
from tests.jobs.crowd import at_once, outcome
from tests.jobs.factories import (
    a_claim,
    a_job,
    claim_again,
    ended,
    row,
    settle,
    sql,
    state,
    succeed,
)
from tests.specimens.handlers import Echo, Noop
from tests.wait import wait_until

pytestmark = pytest.mark.django_db
START = datetime(2040, 1, 1, tzinfo=UTC)
OTHERS = sorted(set(JobState) - RETRYABLE_STATES)
UNFINISHED = sorted(set(JobState) - FINAL_STATES)


def a_failure(**options: Any) -> UUID:
    """A job that was given up, with its dead letter."""
    claim = a_claim(Noop(), **options)
    settle(ended(claim, "unrecoverable"))
    return claim.id


def letters(job_id: UUID) -> list[str]:
    return [d.state for d in DeadLetter.objects.filter(job_id=job_id).order_by("id")]


def forget(job_id: UUID) -> None:
    """The job is gone, as retention deletes it."""
    sql("DELETE FROM jobs_attempt WHERE job_id = %s", [job_id])
    sql("DELETE FROM jobs_deadletter WHERE job_id = %s", [job_id])
    sql("DELETE FROM jobs_job WHERE id = %s", [job_id])


# ---- retry


@pytest.mark.parametrize("final", sorted(RETRYABLE_STATES))
def test_what_did_not_succeed_may_run_again(final: str) -> None:
    job_id = a_job(final)
    retry(job_id, by="ada", reason="mended")
    job = row(job_id)
    assert (job.state, job.finished_at, job.reason, job.wait) == ("pending", None, "", 0)
    assert job.history[-1][1:] == [final, "pending", "ada", "mended"]
    assert succeed(claim_again(job_id)) == {job_id}


@pytest.mark.parametrize("other", OTHERS)
def test_anything_else_is_refused_and_stays(other: str) -> None:
    job_id = a_job(other)
    before = row(job_id).history
    with pytest.raises(jobs.errors.NotAllowed, match="cancelled or expired or failed") as caught:
        retry(job_id, by="ada")
    assert (caught.value.state, caught.value.action) == (other, "retry")
    assert (state(job_id), row(job_id).history) == (other, before)


def test_a_job_that_nobody_knows() -> None:
    for act in (retry, replay):
        with pytest.raises(jobs.errors.UnknownJob):
            act(uuid4(), by="ada")


@pytest.mark.parametrize("attempts", [0, -1, 1001, True, 1.5, "2"])
def test_a_senseless_budget_is_refused(attempts: Any) -> None:
    job_id = a_failure()
    with pytest.raises(jobs.errors.InvalidOption, match="attempts"):
        retry(job_id, by="ada", attempts=attempts)
    assert (state(job_id), letters(job_id)) == ("failed", ["open"])


def test_the_budget_is_raised_and_the_past_stays() -> None:
    claim = a_claim(Noop(), max_attempts=1)
    settle(ended(claim, "failed"))
    assert state(claim.id) == "failed"
    retry(claim.id, by="ada", attempts=2)
    job = row(claim.id)
    assert (job.max_attempts, job.failures, job.attempt) == (3, 1, 1)
    settle(ended(claim_again(claim.id), "failed"))
    assert state(claim.id) == "pending"
    settle(ended(claim_again(claim.id), "failed"))
    assert (state(claim.id), row(claim.id).failures) == ("failed", 3)


def test_a_budget_that_is_left_is_not_lowered() -> None:
    job_id = a_failure(max_attempts=10)
    retry(job_id, by="ada")
    assert row(job_id).max_attempts == 10


def test_crashes_and_releases_begin_anew() -> None:
    claim = a_claim(Noop())
    for _ in range(2):
        settle(ended(claim, "crashed"))
        claim = claim_again(claim.id)
    settle(ended(claim, "crashed"))
    assert (state(claim.id), row(claim.id).reason) == ("failed", "crash_loop")
    retry(claim.id, by="ada")
    assert (row(claim.id).crashes, row(claim.id).releases) == (0, 0)
    settle(ended(claim_again(claim.id), "crashed"))
    assert state(claim.id) == "pending"


def test_an_expiry_that_has_passed_no_longer_counts(set_clock: Any) -> None:
    start = datetime(2040, 1, 1, tzinfo=UTC)
    set_clock(start)
    past, ahead = a_failure(expires=60), a_failure(expires=86400)
    set_clock(start + timedelta(hours=1))
    retry(past, by="ada")
    retry(ahead, by="ada")
    assert row(past).expires_at is None
    assert row(ahead).expires_at == start + timedelta(days=1)
    assert row(past).run_at == start + timedelta(hours=1)


@pytest.mark.parametrize("expires", [60, timedelta(minutes=1), START + timedelta(minutes=1)])
def test_a_retry_may_have_an_expiry_of_its_own(set_clock: Any, expires: Any) -> None:
    set_clock(START)
    job = a_failure(expires=3600)
    retry(job, by="ann", expires=expires)
    assert row(job).expires_at == START + timedelta(minutes=1)
    set_clock(START + timedelta(minutes=2))
    expire("w")
    assert state(job) == "expired"


@pytest.mark.parametrize("expires", [0, -1, "tomorrow", True, datetime(2040, 1, 1), 1e12])
def test_an_expiry_that_says_nothing_is_refused(expires: Any) -> None:
    job = a_failure()
    with pytest.raises(jobs.errors.InvalidOption, match="expires"):
        retry(job, by="ann", expires=expires)
    assert state(job) == "failed"


def test_each_failure_has_a_dead_letter_of_its_own() -> None:
    job_id = a_failure()
    assert letters(job_id) == ["open"]
    retry(job_id, by="ada", reason="mended")
    letter = DeadLetter.objects.get()
    assert (letter.state, letter.closed_at is not None) == ("retried", True)
    assert letter.history[-1][3:] == ["ada", "mended"]
    settle(ended(claim_again(job_id), "unrecoverable"))
    assert letters(job_id) == ["retried", "open"]


def test_a_key_that_another_has_taken_is_in_the_way() -> None:
    first = jobs.enqueue(Noop(), unique=jobs.Unique("k")).id
    cancel(first, by="ada")
    second = jobs.enqueue(Noop(), unique=jobs.Unique("k")).id
    with pytest.raises(jobs.errors.KeyTaken, match=str(second)) as caught:
        retry(first, by="ada")
    assert (caught.value.other, caught.value.key) == (second, "k")
    assert state(first) == "cancelled"
    succeed(claim_again(second))
    retry(first, by="ada")
    assert state(first) == "pending"


@pytest.mark.parametrize("for_", ["unfinished", "ever", "waiting", timedelta(hours=1)])
def test_a_job_does_not_collide_with_its_own_key(for_: Any) -> None:
    unique = jobs.Unique("k", for_)
    job_id = jobs.enqueue(Noop(), unique=unique).id
    settle(ended(claim_again(job_id), "released"))
    settle(ended(claim_again(job_id), "unrecoverable"))
    retry(job_id, by="ada")
    assert state(job_id) == "pending"
    settle(ended(claim_again(job_id), "unrecoverable"))
    new = replay(job_id, by="ada")
    again = jobs.enqueue(Noop(), unique=unique)
    assert (again.id, again.deduplicated) == (new, True)


# ---- batches


def test_a_retry_opens_the_batch_again_and_its_callbacks_fire_once_more() -> None:
    callbacks = {name: Echo(text=name) for name in ("on_success", "on_complete", "on_failure")}
    with jobs.batch(**callbacks) as batch:  # type: ignore[arg-type]
        good, bad = batch.add(Noop()).id, batch.add(Noop()).id
    succeed(claim_again(good))
    settle(ended(claim_again(bad), "unrecoverable"))
    first = batches.progress(batch.id)
    assert (first.state, first.succeeded, first.failed, first.generation) == ("done", 1, 1, 1)
    assert called() == ["on_complete", "on_failure"]
    retry(bad, by="ada")
    between = batches.progress(batch.id)
    assert (between.state, between.failed, between.generation) == ("sealed", 0, 2)
    assert between.finished_at is None
    succeed(claim_again(bad))
    last = batches.progress(batch.id)
    assert (last.state, last.succeeded, last.failed, last.total) == ("done", 2, 0, 2)
    assert called() == ["on_complete", "on_complete", "on_failure", "on_success"]


def test_a_retry_before_the_batch_is_done_is_of_the_same_generation() -> None:
    with jobs.batch(on_failure=Echo(text="on_failure")) as batch:
        bad, _ = batch.add(Noop()).id, batch.add(Noop()).id
    for _ in range(2):
        settle(ended(claim_again(bad), "unrecoverable"))
        assert batches.progress(batch.id).failed == 1
        retry(bad, by="ada")
    assert (batches.progress(batch.id).generation, called()) == (1, ["on_failure"])


@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_every_final_state_is_taken_off_its_own_counter(how: str) -> None:
    with jobs.batch() as batch:
        job_id = batch.add(Noop(), expires=0.001).id
    if how == "cancelled":
        cancel(job_id, by="ada")
    else:
        wait_until(lambda: expire("me"))
    assert getattr(batches.progress(batch.id), how) == 1
    retry(job_id, by="ada")
    progress = batches.progress(batch.id)
    assert (progress.done, progress.state, progress.generation) == (0, "sealed", 2)


def called() -> list[str]:
    return sorted(j.payload["text"] for j in jobs.Job.objects.filter(kind="test.echo"))


# ---- replay


@pytest.mark.parametrize("final", sorted(FINAL_STATES))
def test_whatever_has_ended_may_be_replayed(final: str) -> None:
    old = a_job(final, Echo(text="x"), priority=7, tenant="t", tags=["a"], correlation_id="c")
    new = replay(old, by="ada", reason="once more")
    one, two = row(old), row(new)
    assert (one.state, two.state, two.payload) == (final, "pending", {"text": "x"})
    assert (one.replayed_by, two.replay_of, one.lineage, two.lineage) == (new, old, old, old)
    assert (two.priority, two.tenant, two.tags, two.correlation_id) == (7, "t", ["a"], "c")
    assert (two.attempt, two.failures, two.history) == (0, 0, [])


@pytest.mark.parametrize("other", UNFINISHED)
def test_what_has_not_ended_is_not_replayed(other: str) -> None:
    job_id = a_job(other)
    with pytest.raises(jobs.errors.NotAllowed, match=f"it is {other}"):
        replay(job_id, by="ada")
    assert jobs.Job.objects.filter(replay_of=job_id).count() == 0


def test_payload_and_options_may_differ() -> None:
    old = a_job("failed", Echo(text="x"), priority=7)
    new = replay(old, by="ada", payload=Echo(text="y"), priority=9, delay=60)
    assert (row(new).payload, row(new).priority, row(new).wait) == ({"text": "y"}, 9, 1)
    with pytest.raises(jobs.errors.InvalidOption, match="priority"):
        replay(a_job("failed"), by="ada", priority=101)


def test_keys_go_along() -> None:
    old = jobs.enqueue(Noop(), exclusive="agent:1", unique=jobs.Unique("k")).id
    cancel(old, by="ada")
    new = row(replay(old, by="ada"))
    assert (new.exclusive_key, new.unique_key) == ("agent:1", "k")


def test_a_key_that_another_line_has_taken_is_in_the_way_of_a_replay() -> None:
    old = jobs.enqueue(Noop(), unique=jobs.Unique("k")).id
    cancel(old, by="ada")
    other = jobs.enqueue(Noop(), unique=jobs.Unique("k")).id
    with pytest.raises(jobs.errors.KeyTaken) as caught:
        replay(old, by="ada")
    assert caught.value.other == other
    assert jobs.Job.objects.count() == 2 and row(old).replayed_by is None


def test_a_dead_letter_says_that_it_was_replayed() -> None:
    old = a_failure()
    replay(old, by="ada", reason="as asked")
    letter = DeadLetter.objects.get()
    assert (letter.state, letter.history[-1][3:]) == ("replayed", ["ada", "as asked"])


def test_a_kind_may_forbid_it() -> None:
    class Once(jobs.Payload, kind="test.once"):
        pass

    @jobs.handler(Once, replayable=False)
    def once(ctx: jobs.Context, payload: Once) -> None: ...

    try:
        job_id = a_job("succeeded", Once())
        with pytest.raises(jobs.errors.NotAllowed, match="forbids"):
            replay(job_id, by="ada")
    finally:
        registry.unregister("test.once")


def test_a_member_of_a_batch_is_replayed_outside_of_it() -> None:
    with jobs.batch() as batch:
        member = batch.add(Noop()).id
    settle(ended(claim_again(member), "unrecoverable"))
    assert row(replay(member, by="ada")).batch_id is None
    assert batches.progress(batch.id).failed == 1


# ---- the lineage: at most one member is unfinished


def test_a_second_replay_waits_for_the_end_of_the_first() -> None:
    old = a_job("failed")
    new = replay(old, by="ada")
    for member in (old, new):
        with pytest.raises(jobs.errors.NotAllowed):
            replay(member, by="ada")
    succeed(claim_again(new))
    newest = replay(old, by="ada")
    assert row(newest).lineage == old
    settle(ended(claim_again(newest), "unrecoverable"))
    assert row(replay(newest, by="ada")).lineage == old


def test_a_retry_beside_an_unfinished_replay_is_refused() -> None:
    old = a_failure()
    new = replay(old, by="ada")
    with pytest.raises(jobs.errors.NotAllowed, match=f"succeeded by {new}"):
        retry(old, by="ada")
    assert (state(old), letters(old)) == ("failed", ["replayed"])
    cancel(new, by="ada")
    retry(old, by="ada")
    assert state(old) == "pending"
    with pytest.raises(jobs.errors.NotAllowed):
        retry(new, by="ada")


def test_a_line_goes_on_when_its_first_member_is_deleted() -> None:
    first = a_failure()
    second = replay(first, by="ada")
    settle(ended(claim_again(second), "unrecoverable"))
    forget(first)
    third = replay(second, by="ada")
    assert row(third).lineage == first
    with pytest.raises(jobs.errors.NotAllowed):
        retry(second, by="ada")


def unfinished_members(lineage: UUID) -> int:
    return jobs.Job.objects.filter(lineage=lineage).exclude(state__in=FINAL_STATES).count()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_deleted", [False, True])
def test_of_many_who_replay_a_line_one_does(is_deleted: bool) -> None:
    first = a_failure()
    members = [first]
    for _ in range(3):
        members.append(replay(members[-1], by="ada"))
        settle(ended(claim_again(members[-1]), "unrecoverable"))
    if is_deleted:
        forget(members.pop(0))
    answers = at_once(
        [outcome(lambda m=m, act=act: act(m, by="x")) for m in members for act in (replay, retry)]  # type: ignore[misc]
    )
    allowed = [a for a in answers if not isinstance(a, Exception)]
    assert len(allowed) == 1, answers
    assert all(isinstance(a, jobs.errors.NotAllowed) for a in answers if isinstance(a, Exception))
    assert unfinished_members(first) == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_who_retry_one_does_and_the_batch_counts_once() -> None:
    with jobs.batch() as batch:
        job_id = batch.add(Noop()).id
    settle(ended(claim_again(job_id), "unrecoverable"))
    answers = at_once([outcome(lambda: retry(job_id, by="x")) for _ in range(8)])
    assert sum(a is None for a in answers) == 1
    progress = batches.progress(batch.id)
    assert (progress.failed, progress.generation, progress.state) == (0, 2, "sealed")
