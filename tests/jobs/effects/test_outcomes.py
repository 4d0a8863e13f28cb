"""What was done is done once, also for an attempt that lost its job meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

import jobs
from jobs.models import Effect
from tests.jobs.effects.world import Outside, ctx, doubted, steal, the_effect
from tests.jobs.factories import a_claim, row
from tests.jobs.factories import sql as told

pytestmark = pytest.mark.django_db


# ---- what is done is done


def test_the_outcome_is_answered_again_without_a_call(outside: Outside) -> None:
    claim = a_claim()
    first = ctx(claim).effect("send", outside, request={"to": "x"})
    assert ctx(steal(claim)).effect("send", outside) == first == {"number": 1}
    assert outside.calls == 1
    effect = the_effect(claim.id)
    assert (effect.state, effect.attempt, effect.request) == ("done", 1, {"to": "x"})
    assert effect.settled_at is not None


@pytest.mark.parametrize("outcome", [None, 0, "", [1, {"a": None}], False])
def test_every_outcome_comes_back(outcome: object) -> None:
    claim = a_claim()
    assert ctx(claim).effect("send", lambda: outcome) == outcome
    assert ctx(steal(claim)).effect("send", pytest.fail) == outcome


def test_the_first_run_sees_the_outcome_as_later_ones_do() -> None:
    claim = a_claim()
    assert ctx(claim).effect("send", lambda: (claim.id, 1)) == [str(claim.id), 1]


def test_keys_and_jobs_have_effects_of_their_own(outside: Outside) -> None:
    claim = a_claim()
    ctx(claim).effect("a", outside)
    ctx(claim).effect("b", outside)
    ctx(a_claim()).effect("a", outside)
    assert outside.calls == 3


@pytest.mark.django_db(transaction=True)
def test_the_intent_is_committed_before_the_call() -> None:
    claim = a_claim()
    seen: list[str] = []

    def look() -> None:
        seen.append(the_effect(claim.id).state)
        connection.close()

    def call() -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    ctx(claim).effect("send", call)
    look()
    assert seen == ["intent", "done"]


# ---- the fence


def test_a_stale_attempt_calls_nothing(outside: Outside) -> None:
    claim = a_claim()
    steal(claim)
    with pytest.raises(jobs.Stopped, match="lease_lost"):
        ctx(claim).effect("send", outside)
    assert outside.calls == 0
    assert not Effect.objects.exists()


def test_what_happened_is_recorded_although_the_job_was_taken_away(outside: Outside) -> None:
    claim = a_claim()

    def call() -> Any:
        steal(claim)
        return outside()

    with pytest.raises(jobs.Stopped, match="lease_lost"):
        ctx(claim).effect("send", call)
    assert the_effect(claim.id).outcome == {"number": 1}
    assert row(claim.id).state == "running"


def test_one_that_was_told_to_stop_begins_no_effect(outside: Outside) -> None:
    with pytest.raises(jobs.Stopped, match="cancelled"):
        ctx(a_claim(), "cancelled").effect("send", outside)
    assert outside.calls == 0


# ---- the database


@pytest.mark.parametrize(
    "change", ["state = 'failed'", "state = 'intent'", "outcome = '8'", "key = 'other'"]
)
def test_what_is_done_stays_done(change: str) -> None:
    claim = a_claim()
    ctx(claim).effect("send", lambda: 7)
    with pytest.raises(IntegrityError, match="its row stays as it is"), transaction.atomic():
        told(f"UPDATE jobs_effect SET {change} WHERE job_id = %s", [claim.id])  # noqa: S608
    told("UPDATE jobs_effect SET resolution = 'looked at' WHERE job_id = %s", [claim.id])
    assert (the_effect(claim.id).state, the_effect(claim.id).outcome) == ("done", 7)


def test_a_doubt_is_not_deleted(outside: Outside) -> None:
    claim = doubted(outside)
    effect = the_effect(claim.id)
    with (
        pytest.raises(IntegrityError, match="is intent and cannot be deleted"),
        transaction.atomic(),
    ):
        effect.delete()
