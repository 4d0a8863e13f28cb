"""Jobs that wait for a person's word about their effects."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs import endings
from jobs.context import Context
from jobs.engine.claims import Claim
from jobs.engine.endings import Teller
from jobs.models import DeadLetter
from jobs.operate import doubts
from jobs.principals import Principal, Scope
from jobs.states import JobState
from tests.jobs.effects.world import Outside, Parked, ctx, doubted, run, the_effect
from tests.jobs.factories import a_claim, claim_again, ended, row, settle, succeed
from tests.jobs.factories import sql as told
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


def handle_parked(ctx: Context, payload: Parked) -> Any:
    return ctx.effect("send", lambda: 1 // 0)


def a_parked_job(registered: Any) -> Claim:
    registered(Parked, handle_parked, max_attempts=5, backoff=jobs.backoff.Immediate())
    claim = a_claim(Parked())
    run(claim)
    run(claim_again(claim.id))
    return claim


def test_a_job_in_doubt_fails_for_a_person(registered: Any) -> None:
    claim = a_parked_job(registered)
    job = row(claim.id)
    assert (job.state, job.reason, job.attempt) == ("failed", "in_doubt", 2)
    letter = DeadLetter.objects.get(job_id=claim.id)
    assert (letter.state, letter.reason) == ("open", "in_doubt")
    assert [effect.job_id for effect in doubts.open_doubts()] == [claim.id]


def test_a_retry_alone_decides_nothing(registered: Any) -> None:
    claim = a_parked_job(registered)
    jobs.retry(claim.id, by="ann")
    run(claim_again(claim.id))
    assert (row(claim.id).state, row(claim.id).reason) == ("failed", "in_doubt")


def test_resend_lets_the_next_attempt_call_again(registered: Any) -> None:
    claim = a_parked_job(registered)
    done = doubts.resolve(the_effect(claim.id).id, "resend", by="ann", reason="not in the outbox")
    assert (done.job_id, done.retried) == (claim.id, True)
    assert row(claim.id).state == "pending"
    assert DeadLetter.objects.get(job_id=claim.id).state == "retried"
    context = ctx(claim_again(claim.id))
    assert context.effect("send", lambda: "sent") == "sent"
    assert the_effect(claim.id).resolution == "resend by ann: not in the outbox"
    assert not doubts.open_doubts().exists()


def test_assume_done_goes_on_with_the_given_outcome(registered: Any) -> None:
    claim = a_parked_job(registered)
    doubts.resolve(the_effect(claim.id).id, "assume_done", by="ann", reason="it came", outcome="7")
    run(claim_again(claim.id))
    assert (row(claim.id).state, row(claim.id).result) == ("succeeded", "7")


@pytest.fixture
def ends() -> Iterator[list[jobs.types.Ended]]:
    """What whoever asked for the ends of parked jobs was told."""
    found: list[jobs.types.Ended] = []

    @jobs.ended(Parked)
    def listen(ended: jobs.types.Ended) -> None:
        found.append(ended)
        if len(found) > 1 and found[0].reason == "raise":
            raise ValueError("not now")

    yield found
    endings.forget(Parked)


def test_what_did_not_happen_leaves_the_job_failed(
    registered: Any, ends: list[jobs.types.Ended]
) -> None:
    claim = a_parked_job(registered)
    Teller().run()
    done = jobs.effects.resolve_doubt(
        claim.id, "send", "did_not_happen", by="ann", reason="cancelled"
    )
    assert (done.job_id, done.retried) == (claim.id, False)
    assert (row(claim.id).state, row(claim.id).reason) == ("failed", "in_doubt")
    assert DeadLetter.objects.get(job_id=claim.id).state == "open"
    effect = the_effect(claim.id)
    assert (effect.state, effect.resolution) == ("failed", "did_not_happen by ann: cancelled")
    assert not doubts.open_doubts().exists()
    told_then = [(end.id, end.state, end.in_doubt, end.effects) for end in ends]
    assert told_then == [
        (claim.id, "failed", True, {"send": "in_doubt"}),
        (claim.id, "failed", False, {"send": "failed"}),
    ]


def test_a_job_that_was_left_failed_calls_again_after_a_retry(registered: Any) -> None:
    claim = a_parked_job(registered)
    jobs.effects.resolve_doubt(claim.id, "send", "did_not_happen", by="ann", reason="looked")
    jobs.retry(claim.id, by="ann")
    assert ctx(claim_again(claim.id)).effect("send", lambda: "sent") == "sent"
    assert the_effect(claim.id).resolution == ""


def test_the_last_decision_says_whether_the_job_runs_again() -> None:
    cases: list[tuple[doubts.How, doubts.How, str]] = [
        ("resend", "did_not_happen", "failed"),
        ("did_not_happen", "resend", "pending"),
    ]
    for first, last, state in cases:
        claim = a_claim()
        for key in ("a", "b"):
            with pytest.raises(ZeroDivisionError):
                ctx(claim).effect(key, lambda: 1 // 0)
        settle(ended(claim, "in_doubt"))
        doubts.resolve(the_effect(claim.id, "a").id, first, by="ann", reason="looked")
        doubts.resolve(the_effect(claim.id, "b").id, last, by="ann", reason="looked")
        assert row(claim.id).state == state


def test_a_listener_that_raises_does_not_undo_the_decision(
    registered: Any, ends: list[jobs.types.Ended], caplog: pytest.LogCaptureFixture
) -> None:
    claim = a_parked_job(registered)
    ends.append(jobs.types.Ended(claim.id, "", "", JobState.FAILED, "raise", in_doubt=True))
    doubts.resolve(the_effect(claim.id).id, "did_not_happen", by="ann", reason="looked")
    assert the_effect(claim.id).state == "failed"
    assert "was not taken" in caplog.text


def test_a_doubt_is_decided_by_job_and_key(registered: Any) -> None:
    claim = a_parked_job(registered)
    done = jobs.effects.resolve_doubt(
        claim.id, "send", "resend", by="ann", reason="looked", expires=timedelta(hours=2)
    )
    assert (done.job_id, done.retried) == (claim.id, True)
    left = row(claim.id).expires_at - told("SELECT jobs_clock()")[0][0]
    assert timedelta(hours=1, minutes=59) < left <= timedelta(hours=2)
    with pytest.raises(jobs.errors.EffectError, match="not in doubt"):
        jobs.effects.resolve_doubt(claim.id, "send", "resend", by="ann", reason="again")


def test_a_doubt_that_is_not_there_or_hidden_looks_the_same(registered: Any) -> None:
    claim = a_parked_job(registered)
    stranger = Principal("eve", "api", scope=Scope(frozenset({"other"})))
    said = []
    for by, key in (("ann", "no such"), (stranger, "send"), (stranger, "no such")):
        with pytest.raises(jobs.errors.UnknownTarget) as caught:
            jobs.effects.resolve_doubt(claim.id, key, "resend", by=by, reason="x")
        said.append(str(caught.value).replace(key, "KEY"))
    assert len(set(said)) == 1
    assert doubts.open_doubts().count() == 1


@pytest.mark.parametrize(("job", "key"), [("abc", "send"), (7, "send"), (UUID(int=0), "a\0b")])
def test_what_cannot_be_an_effect_is_not_there(job: Any, key: str) -> None:
    with pytest.raises(jobs.errors.UnknownTarget):
        jobs.effects.resolve_doubt(job, key, "resend", by="ann", reason="x")


def test_the_job_waits_until_no_doubt_is_left() -> None:
    claim = a_claim()
    for key in ("a", "b"):
        with pytest.raises(ZeroDivisionError):
            ctx(claim).effect(key, lambda: 1 // 0)
    settle(ended(claim, "in_doubt"))
    first, second = (the_effect(claim.id, key).id for key in "ab")
    assert not doubts.resolve(first, "resend", by="ann", reason="looked").retried
    assert row(claim.id).state == "failed"
    assert doubts.resolve(second, "assume_done", by="ann", reason="looked").retried
    assert row(claim.id).state == "pending"


def test_a_replay_repeats_nothing_that_has_happened(outside: Outside) -> None:
    claim = a_claim()
    ctx(claim).effect("send", outside)
    settle(ended(claim, "unrecoverable"))
    replayed = claim_again(jobs.replay(claim.id, by="ann"))
    assert ctx(replayed).effect("send", outside) == {"number": 1}
    assert ctx(replayed).effect("other", outside) == {"number": 2}
    assert the_effect(replayed.id).resolution == f"carried over from {claim.id}"


def test_a_replay_with_another_payload_begins_anew(outside: Outside) -> None:
    claim = a_claim(Noop(data="to a"))
    ctx(claim).effect("send", outside)
    settle(ended(claim, "unrecoverable"))
    replayed = claim_again(jobs.replay(claim.id, by="ann", payload=Noop(data="to b")))
    assert ctx(replayed).effect("send", outside) == {"number": 2}


def test_a_replay_of_a_success_does_everything_again(outside: Outside) -> None:
    claim = a_claim()
    ctx(claim).effect("send", outside)
    succeed(claim)
    replayed = claim_again(jobs.replay(claim.id, by="ann"))
    assert ctx(replayed).effect("send", outside) == {"number": 2}


def test_a_job_in_doubt_is_not_replayed(outside: Outside) -> None:
    claim = doubted(outside)
    settle(ended(claim, "in_doubt"))
    with pytest.raises(
        jobs.errors.NotAllowed, match="in doubt about an effect; resolve that first"
    ):
        jobs.replay(claim.id, by="ann")
    assert row(claim.id).replayed_by is None


def test_a_call_that_may_be_under_way_is_not_decided_upon() -> None:
    claim = a_claim()
    problems: list[str] = []

    def call() -> None:
        with pytest.raises(jobs.errors.EffectError) as caught:
            doubts.resolve(the_effect(claim.id).id, "resend", by="ann", reason="impatient")
        problems.append(str(caught.value))

    ctx(claim).effect("send", call)
    assert problems == ["resolve: the call of effect 'send' may be under way: its job runs"]


def test_what_is_known_is_not_decided_upon(outside: Outside) -> None:
    claim = a_claim()
    ctx(claim).effect("send", outside)
    with pytest.raises(jobs.errors.EffectError, match="is done, not in doubt"):
        doubts.resolve(the_effect(claim.id).id, "resend", by="ann", reason="again!")
    with pytest.raises(jobs.errors.UnknownTarget, match="there is no effect 0"):
        doubts.resolve(0, "resend", by="ann", reason="which?")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"how": "replay"}, "how must be"),
        ({"by": ""}, "by: is empty"),
        ({"reason": " "}, "reason: is empty"),
        ({"outcome": 1}, "outcome goes with 'assume_done'"),
        ({"how": "did_not_happen", "outcome": 1}, "outcome goes with 'assume_done'"),
        ({"how": "did_not_happen", "expires": 60}, "expires goes with a decision that runs"),
        ({"how": "assume_done", "outcome": object()}, "outcome cannot be stored"),
    ],
)
def test_a_bad_decision_is_refused(
    outside: Outside, arguments: dict[str, Any], problem: str
) -> None:
    claim = doubted(outside)
    given = {"how": "resend", "by": "ann", "reason": "looked", **arguments}
    with pytest.raises(jobs.JobsError, match=problem):
        doubts.resolve(the_effect(claim.id).id, **given)
    assert the_effect(claim.id).state == "intent"
