"""Why a pending job does not run: every reason, with its end."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs.engine import rq
from jobs.models import Breaker, Limiter, Slot
from jobs.operate import blackouts
from jobs.operate.explain import Reason, explain
from jobs.operate.pauses import pause
from tests.jobs.explain.asking import NOON, SetClock, why
from tests.jobs.factories import (
    WORKER,
    a_claim,
    a_job,
    an_executor,
    ended,
    row,
    settle,
    sql,
)
from tests.specimens.handlers import Fail

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
WHO: dict[str, Any] = {"by": "ann", "reason": "maintenance"}


def test_a_job_that_is_not_due() -> None:
    reason = why(a_job(delay=60))
    assert (reason.code, reason.until) == ("not_due", NOON + timedelta(seconds=60))
    assert reason.text == "not due before 2040-01-02 12:01:00 UTC"


def test_a_job_between_two_attempts() -> None:
    claim = a_claim(Fail(), max_attempts=3)
    settle(ended(claim))
    reason = why(claim.id)
    assert reason.code == "not_due" and reason.until == row(claim.id).run_at
    assert "after 1 of 3 failed: ValueError: as told" in reason.text


def test_a_job_that_snoozes() -> None:
    claim = a_claim()
    settle(ended(claim, "snoozed", floor=30.0, why="the shop is shut"))
    assert why(claim.id).text == "waits until 2040-01-02 12:00:30 UTC: the shop is shut"


def test_a_job_before_an_open_circuit() -> None:
    Breaker.objects.create(name="meta:page:7", state="open", retry_at=NOON + HOUR)
    claim = a_claim()
    error = jobs.effects.CircuitOpen("meta:page:7", 30.0)
    settle(ended(claim, "held", floor=error.delay, why=str(error)))
    reason = why(claim.id)
    assert (reason.code, reason.until) == ("circuit_open", row(claim.id).run_at)
    assert reason.text.startswith("circuit meta:page:7 is open")
    Breaker.objects.update(state="closed")
    assert why(claim.id).code == "not_due"


def test_a_job_in_its_turn() -> None:
    a_job(priority=1)
    a_job(tenant="another")
    assert why(a_job()).text == (
        "due, and waits for its turn in queue 'default'; 1 of its kind and tenant is before it"
    )


@pytest.mark.parametrize("scope", ["queue:default", "kind:test.noop", "tenant:acme", "key:door"])
@pytest.mark.parametrize("state", ["pending", "queued"])
def test_a_paused_job(scope: str, state: str) -> None:
    mine = a_job(state, tenant="acme", exclusive="door")
    pause("queue:elsewhere", **WHO)
    pause(scope, until=NOON + HOUR, **WHO)
    reason = explain(mine).reasons[0]
    assert (reason.code, reason.until) == ("paused", NOON + HOUR)
    assert reason.text == (
        f"{scope} is closed until 2040-01-02 13:00:00 UTC: paused by ann: maintenance"
    )
    pause(scope, **WHO)
    assert "until it is resumed" in explain(mine).reasons[0].text


def test_a_job_in_a_blackout() -> None:
    mine = a_job()
    blackouts.create("kind:test.noop", time(11), time(14), **WHO)
    pause("queue:default", **WHO)
    found = explain(mine)
    assert found.codes == ("blackout", "paused")
    assert found.reasons[0].until == NOON + 2 * HOUR


@pytest.mark.parametrize("scope", ["queue:default", "kind:test.noop", "key:test.noop|tenant-1"])
def test_a_limit_that_is_reached(scope: str) -> None:
    holders = [a_job("running"), a_job("queued")]
    mine = a_job()
    sql("UPDATE jobs_job SET limit_key = 'tenant-1'")
    a_job("queued", queue="elsewhere", payload=Fail())
    Limiter.objects.create(scope=scope, at_once=2)
    reason = why(mine)
    assert reason.code == "limit" and set(reason.ids) == {str(job_id) for job_id in holders}
    assert reason.text.startswith(f"{scope} allows 2 at once")
    Limiter.objects.update(at_once=3)
    assert why(mine).code == "turn"


def test_a_rate_that_is_used_up() -> None:
    mine = a_job()
    refilled = NOON - timedelta(seconds=2)
    Limiter.objects.create(
        scope="kind:test.noop", per_second=0.1, burst=1, tokens=0.5, refilled_at=refilled
    )
    reason = why(mine)
    assert (reason.code, reason.until) == ("rate", NOON + timedelta(seconds=3))
    Limiter.objects.update(tokens=0.8)
    assert why(mine).code == "turn"


def test_a_scope_that_was_told_to_wait() -> None:
    mine = a_job()
    Limiter.objects.create(scope="queue:default", closed_until=NOON + HOUR)
    assert (why(mine).code, why(mine).until) == ("rate_limited", NOON + HOUR)
    Limiter.objects.update(closed_until=NOON)
    assert why(mine).code == "turn"


def a_holder(surroundings: UUID, **options: Any) -> UUID:
    """A running job that holds the key."""
    claim = a_claim(owner=surroundings, exclusive="door", **options)
    Slot.objects.create(key="door", job_id=claim.id)
    return claim.id


def a_rival(**columns: Any) -> UUID:
    mine = a_job(exclusive="door", priority=5)
    sql("UPDATE jobs_job SET wait = 2, preempts = true WHERE id = %s", [mine])
    return mine


def test_a_key_that_is_held(surroundings: UUID) -> None:
    holder = a_holder(surroundings)
    mine = a_job(exclusive="door")
    reason = why(mine)
    assert (reason.code, reason.ids) == ("key_held", (str(holder),))
    assert reason.text == (
        f"key 'door' is held by job {holder}, which is running since 2040-01-02 12:00:00 UTC "
        f"by {WORKER}"
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("preemptible = false", "it cannot be preempted"),
        ("priority = 5", "its priority 5 is no lower"),
        ("preemptions = 3", "was preempted 3 times already"),
        ("priority = 0", "is about to be asked"),
        ("preempt_asked_at = jobs_clock(), preempted_by = id", "to make way"),
        (
            "preempt_asked_at = jobs_clock() - interval '1 min', preempted_by = id",
            "has not obeyed, and may not be killed",
        ),
    ],
)
def test_a_key_whose_holder_may_have_to_make_way(
    surroundings: UUID, columns: str, words: str
) -> None:
    holder = a_holder(surroundings)
    sql("UPDATE jobs_job SET preemptible = true WHERE id = %s", [holder])
    sql(f"UPDATE jobs_job SET {columns} WHERE id = %s", [holder])  # noqa: S608
    text = why(a_rival()).text
    assert words in text


def test_a_queued_holder_is_about_to_make_way(surroundings: UUID) -> None:
    holder = a_job("pending", exclusive="door")
    sql("UPDATE jobs_job SET preemptible = true, state = 'queued', queued_at = jobs_clock() "
        "WHERE id = %s", [holder])  # fmt: skip
    sql("INSERT INTO jobs_slot (key, job_id) VALUES ('door', %s)", [holder])
    assert why(a_rival()).text.endswith("which is queued; it is about to make way")


def test_a_free_key_for_which_others_wait() -> None:
    a_rival()
    mine = a_job(exclusive="door")
    sql("UPDATE jobs_job SET wait = 2 WHERE id = %s", [mine])
    assert why(mine).text == "key 'door' is free, and 1 waits for it before this job"


def test_a_kind_that_nobody_knows() -> None:
    mine = a_job()
    sql("UPDATE jobs_job SET kind = 'gone' WHERE id = %s", [mine])
    assert why(mine) == Reason("unknown_kind", "no handler is registered for kind 'gone'")


def test_a_job_whose_expiry_has_passed(set_clock: SetClock) -> None:
    mine = a_job(expires=60)
    set_clock(NOON + HOUR)
    rq.note_dispatcher("test-dispatcher")
    an_executor()
    assert why(mine).code == "expired"
