"""Calls of which nobody knows whether they happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jobs
from jobs.engine.claims import Claim
from jobs.operate import doubts
from jobs.outcomes import RateLimited
from jobs.testing import freeze_clock, run_jobs
from tests.jobs.effects.world import Outside, Parked, ctx, doubted, steal, the_effect
from tests.jobs.factories import a_claim, row
from tests.jobs.factories import sql as told

pytestmark = pytest.mark.django_db
Probe = Callable[[jobs.effects.Intent], Any]


def test_without_a_probe_the_job_is_parked(outside: Outside) -> None:
    claim = doubted(outside)
    with pytest.raises(jobs.effects.InDoubt, match=r"'send', intended by attempt 1.*no answer"):
        ctx(claim).effect("send", outside)
    assert outside.calls == 1
    assert the_effect(claim.id).state == "in_doubt"


def test_a_probe_that_finds_it_ends_the_doubt(outside: Outside) -> None:
    claim = doubted(outside)
    asked: list[jobs.effects.Intent] = []

    def probe(intent: jobs.effects.Intent) -> jobs.effects.Happened:
        asked.append(intent)
        return jobs.effects.Happened("id 7")

    assert ctx(claim).effect("send", outside, probe=probe) == "id 7"
    assert ctx(steal(claim)).effect("send", outside, probe=unasked) == "id 7"
    assert outside.calls == 1
    [intent] = asked
    assert (intent.key, intent.attempt, intent.note) == ("send", 1, "TimeoutError: no answer")


def unasked(intent: jobs.effects.Intent) -> jobs.effects.Unknown:
    raise AssertionError("the probe was asked")


def raising(intent: jobs.effects.Intent) -> Any:
    raise jobs.effects.NotHappened


@pytest.mark.parametrize(
    "probe", [lambda _: jobs.effects.NotHappened(), lambda _: jobs.effects.NotHappened, raising]
)
def test_a_probe_that_misses_it_lets_it_happen(outside: Outside, probe: Probe) -> None:
    claim = doubted(outside)
    assert ctx(claim).effect("send", outside, probe=probe) == {"number": 2}
    assert the_effect(claim.id).attempt == 2


def test_a_probe_that_cannot_tell_parks_the_job(outside: Outside) -> None:
    claim = doubted(outside)
    with pytest.raises(jobs.effects.InDoubt, match="the log is gone"):
        ctx(claim).effect("send", outside, probe=lambda _: jobs.effects.Unknown("the log is gone"))
    assert outside.calls == 1


def test_a_probe_that_breaks_fails_the_attempt_and_changes_nothing(outside: Outside) -> None:
    claim = doubted(outside)

    def probe(_: jobs.effects.Intent) -> Any:
        raise ConnectionError("provider is away")

    with pytest.raises(ConnectionError):
        ctx(claim).effect("send", outside, probe=probe)
    assert (outside.calls, the_effect(claim.id).state) == (1, "intent")


def test_a_probe_that_snoozes_is_asked_again_and_costs_nothing(registered: Any) -> None:
    asked: list[int] = []

    def probe(intent: jobs.effects.Intent) -> jobs.effects.Happened:
        asked.append(intent.attempt)
        if len(asked) < 4:
            raise jobs.Snooze(60, "their index is behind")
        return jobs.effects.Happened("id 7")

    def handle(ctx: jobs.Context, payload: Parked) -> Any:
        return ctx.effect("send", lambda: 1 // 0, probe=probe)

    registered(Parked, handle, max_attempts=2, backoff=jobs.backoff.Immediate())
    with freeze_clock() as clock:
        job = jobs.enqueue(Parked()).id
        for _ in range(4):
            run_jobs()
            clock.tick(60)
    found = row(job)
    assert (found.state, found.result, found.failures) == ("succeeded", "id 7", 1)
    assert asked == [1] * 4, "the doubt is still about the first call"
    assert "their index is behind" in str(found.history)


@pytest.mark.parametrize("answer", [None, True, "done", {"happened": True}])
def test_a_probe_must_answer_in_words(outside: Outside, answer: object) -> None:
    claim = doubted(outside)
    with pytest.raises(jobs.errors.EffectError, match="a probe must return"):
        ctx(claim).effect("send", outside, probe=lambda _: answer)  # type: ignore[arg-type,return-value]
    assert outside.calls == 1


def test_what_may_be_repeated_is_repeated(outside: Outside) -> None:
    claim = doubted(outside)
    assert ctx(claim).effect("send", outside, on_doubt="rerun") == {"number": 2}


def test_a_handler_that_swallows_the_error_does_not_call_twice(outside: Outside) -> None:
    claim = a_claim()
    context = ctx(claim)
    with pytest.raises(TimeoutError):
        context.effect("send", outside.breaking(TimeoutError()))
    with pytest.raises(jobs.effects.InDoubt):
        context.effect("send", outside)
    assert outside.calls == 1


def test_a_key_that_is_under_way_is_refused(outside: Outside) -> None:
    context = ctx(a_claim())
    with pytest.raises(jobs.errors.EffectError, match="under way"):
        context.effect("send", lambda: context.effect("send", outside))
    assert outside.calls == 0


class Refused(Exception):
    pass


@pytest.mark.parametrize(
    "error",
    [
        jobs.effects.NotHappened("550"),
        RateLimited(1),
        jobs.effects.CircuitOpen("smtp", 1),
        Refused(),
    ],
)
def test_an_error_that_is_definite_leaves_no_doubt(outside: Outside, error: Exception) -> None:
    claim = a_claim()
    with pytest.raises(type(error)):
        ctx(claim).effect("send", outside.breaking(error), definite=(Refused,))
    assert the_effect(claim.id).state == "failed"
    assert ctx(steal(claim)).effect("send", outside) == {"number": 2}


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt(), jobs.Stopped("timeout")])
def test_any_other_error_leaves_a_doubt(outside: Outside, error: BaseException) -> None:
    claim = a_claim()
    with pytest.raises(type(error)):
        ctx(claim).effect("send", outside.breaking(error))
    with pytest.raises(jobs.effects.InDoubt):
        ctx(steal(claim)).effect("send", outside)
    assert outside.calls == 1


def test_an_outcome_that_cannot_be_stored_is_not_forgotten(outside: Outside) -> None:
    claim = a_claim()
    with pytest.raises(
        jobs.errors.EffectError, match="has happened, but its outcome cannot be stored"
    ):
        ctx(claim).effect("send", lambda: [outside(), object()])
    with pytest.raises(jobs.errors.EffectError, match="could not be stored"):
        ctx(steal(claim)).effect("send", outside)
    assert outside.calls == 1
    doubts.resolve(
        the_effect(claim.id).id, "assume_done", by="ann", reason="seen", outcome={"number": 1}
    )
    assert ctx(steal(claim_now(claim))).effect("send", outside) == {"number": 1}


def claim_now(claim: Claim) -> Claim:
    """The claim that holds the job now."""
    [(token, attempt)] = told("SELECT token, attempt FROM jobs_job WHERE id = %s", [claim.id])
    claim.token, claim.attempt = token, attempt
    return claim
