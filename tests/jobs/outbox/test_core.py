"""What the core itself tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs.engine import closures, pushes, reconcile
from jobs.operate import blackouts
from jobs.operate.pauses import pause, resume
from tests.jobs.crowd import at_once
from tests.jobs.factories import (
    WORKER,
    a_claim,
    a_job,
    claim_again,
    ended,
    settle,
    sql,
    succeed,
)
from tests.jobs.outbox.telling import Telling, Told, payloads, relay, told
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


def topics_of(job_id: UUID) -> list[str]:
    relay()
    return [
        e.topic.removeprefix("jobs.job.") for e in jobs.events.feed() if e.key == f"job:{job_id}"
    ]


def test_every_move_of_a_kind_that_asks_is_told() -> None:
    claim = a_claim(Told(), tenant="acme")
    settle(ended(claim, "failed"))
    job_id = claim.id
    succeed(claim_again(job_id))
    assert topics_of(job_id) == ["claimed", "retried", "claimed", "succeeded"]
    retried = next(e for e in jobs.events.feed() if e.topic == "jobs.job.retried")
    assert retried.tenant == "acme" and retried.audience == "tenant"
    assert retried.payload["kind"] == "test.told" and retried.payload["failures"] == 1
    assert retried.payload["error"] == "ValueError"


def test_of_other_kinds_only_the_final_failure_is_told_and_never_its_text() -> None:
    assert topics_of(a_job("succeeded")) == []
    claim = a_claim(Telling(), max_attempts=1)
    settle(ended(claim, "failed"))
    assert topics_of(claim.id) == ["failed"]
    [event] = jobs.events.feed(topics="jobs.job.failed")
    assert event.payload["reason"] == "exhausted" and event.audience == "staff"
    assert "as told" not in json.dumps(event.payload)


@pytest.mark.parametrize(
    ("ending", "told"), [("lost", "lost"), ("crashed", "lost"), ("released", None)]
)
def test_a_lost_attempt_is_told(ending: Any, told: str | None) -> None:
    claim = a_claim(Noop())
    settle(ended(claim, ending))
    assert topics_of(claim.id) == ([told] if told else [])


def test_cancel_expiry_and_retry_are_told() -> None:
    cancelled, expired = jobs.enqueue(Told()).id, jobs.enqueue(Told()).id
    jobs.cancel(cancelled, by="ann")
    jobs.retry(cancelled, by="ann")
    sql("UPDATE jobs_job SET expires_at = jobs_clock() - interval '1 s' WHERE id = %s", [expired])
    assert reconcile.expire(WORKER) == 1
    assert topics_of(cancelled) == ["cancelled", "reopened"]
    assert topics_of(expired) == ["expired"]


def test_a_move_by_hand_is_told_like_any_other() -> None:
    job_id = jobs.enqueue(Told()).id
    sql(
        "UPDATE jobs_job SET state = 'cancelled', finished_at = jobs_clock() WHERE id = %s",
        [job_id],
    )
    assert topics_of(job_id) == ["cancelled"]


def test_a_deduplicated_enqueue_tells_both_ids() -> None:
    unique = jobs.Unique("k")
    first = jobs.enqueue(Noop(), unique=unique, tenant="acme").id
    assert jobs.enqueue(Noop(), unique=unique, tenant="acme").deduplicated
    jobs.enqueue_many([jobs.Draft(Noop(), unique=unique, tenant="acme")])
    told = payloads("jobs.job.deduplicated")
    assert [p["job"] for p in told] == [str(first)] * 2
    assert len({p["instead_of"] for p in told} | {str(first)}) == 3


def test_a_window_that_begins_and_ends_is_told_once(
    set_clock: Callable[[datetime | None], None],
) -> None:
    who: dict[str, Any] = {"by": "ann", "reason": "backup"}
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def topics() -> list[tuple[str, str]]:
        found = told("jobs.scope.blackout*")
        assert {e.audience for e in found} <= {"staff"}
        return [(e.topic.rpartition("_")[2], e.payload["scope"]) for e in found]

    set_clock(noon - timedelta(hours=1))
    made = blackouts.create("queue:mail", time(12), time(13), **who)
    assert topics() == []
    set_clock(noon)
    for _ in range(3):
        closures.refresh()
    assert topics() == [("begun", "queue:mail")]
    [event] = told("jobs.scope.blackout_begun")
    assert event.payload == {
        "scope": "queue:mail",
        "blackout": made.pk,
        "reason": "backup",
        "until": "2026-05-01T13:00:00Z",
    }
    set_clock(noon + timedelta(hours=1))
    for _ in range(3):
        closures.refresh()
    assert topics()[1:] == [("ended", "queue:mail")]
    set_clock(noon + timedelta(days=1))
    closures.refresh()
    blackouts.update(made.pk, by="ann", scope="queue:post")
    blackouts.enable(made.pk, False, **who)
    blackouts.enable(made.pk, True, **who)
    blackouts.delete(made.pk, **who)
    closures.refresh()
    assert topics()[2:] == [
        ("begun", "queue:mail"),
        ("ended", "queue:mail"),
        ("begun", "queue:post"),
        ("ended", "queue:post"),
        ("begun", "queue:post"),
        ("ended", "queue:post"),
    ]


@pytest.mark.django_db(transaction=True)
def test_those_who_look_at_the_same_time_tell_of_a_window_once() -> None:
    blackouts.create("queue:mail", time(0), time(0), by="ann", reason="all day")
    sql("UPDATE jobs_blackout SET open_since = NULL")
    at_once([lambda: closures.refresh(wait=True)] * 4)
    assert len(told("jobs.scope.blackout_begun")) == 2  # at its creation, and now


def test_pauses_are_told_with_who_and_why(
    set_clock: Callable[[datetime | None], None],
) -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    set_clock(now)
    pause("kind:test.noop", by="ann", reason="too hot")
    assert resume("kind:test.noop", by="bob", reason="cool") is True
    assert resume("kind:test.noop", by="bob", reason="cool") is False
    pause("kind:test.noop", by="ann", reason="again", until=now + timedelta(minutes=1))
    set_clock(now + timedelta(minutes=2))
    closures.refresh()
    assert [(e.topic, e.payload["by"], e.audience) for e in told("jobs.scope.*")] == [
        ("jobs.scope.paused", "ann", "staff"),
        ("jobs.scope.resumed", "bob", "staff"),
        ("jobs.scope.paused", "ann", "staff"),
        ("jobs.scope.resumed", "clock", "staff"),
    ]


def test_a_rate_limit_is_told_by_the_first_that_meets_it() -> None:
    close = (
        "INSERT INTO jobs_limiter (scope, burst, tokens, closed_until, is_declared) "
        "VALUES ('kind:x', 1, 1, jobs_clock() + interval '%s s', true) ON CONFLICT (scope) "
        "DO UPDATE SET closed_until = excluded.closed_until"
    )
    for length in (10, 20, -1, 30):
        sql(close, [length])
    assert [p["scope"] for p in payloads("jobs.limit.held")] == ["kind:x"] * 2


def test_a_circuit_is_told_when_it_opens_and_when_it_closes() -> None:
    move = (
        "INSERT INTO jobs_breaker (name, state) VALUES ('api', %s) "
        "ON CONFLICT (name) DO UPDATE SET state = excluded.state"
    )
    for state in ("closed", "open", "half_open", "open", "half_open", "closed"):
        sql(move, [state])
    assert [e.topic for e in told("jobs.circuit.*")] == [
        "jobs.circuit.opened",
        "jobs.circuit.closed",
    ]


def test_a_doubt_is_told() -> None:
    claim = a_claim(Noop())
    sql(
        "INSERT INTO jobs_effect (job_id, key, state, token, attempt) "
        "VALUES (%s, 'mail', 'intent', gen_random_uuid(), 1)",
        [claim.id],
    )
    sql("UPDATE jobs_effect SET state = 'in_doubt'")
    [event] = told("jobs.effect.in_doubt")
    assert event.payload["job"] == str(claim.id)


def test_progress_of_a_batch_is_told_once_a_second_and_each_transition(
    set_clock: Callable[[datetime | None], None],
) -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    set_clock(now)
    with jobs.batch("import", tenant="acme") as batch:
        for _ in range(5):
            batch.add(Noop())
    members = [claim_again(job_id) for job_id in sorted(jobs_of(batch.id))]
    succeed(members[0])
    succeed(members[1])
    assert batch_events() == ["sealed"]
    set_clock(now + timedelta(seconds=1))
    assert batch_events() == ["sealed", "progress"]  # what was swallowed is told by the relay
    succeed(members[2])
    set_clock(now + timedelta(seconds=3))
    succeed(members[3])
    succeed(members[4])
    assert batch_events() == ["sealed", "progress", "progress", "completed"]
    last = told("jobs.batch.*")[-1]
    assert last.tenant == "acme" and last.payload["succeeded"] == last.payload["total"] == 5


def batch_events() -> list[str]:
    return [e.topic.removeprefix("jobs.batch.") for e in told("jobs.batch.*")]


def jobs_of(batch: UUID) -> list[UUID]:
    return [row[0] for row in sql("SELECT id FROM jobs_job WHERE batch_id = %s", [batch])]


def test_a_kind_that_tells_may_still_be_born_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushes.open_queues, "is_open", lambda queue: True)
    assert jobs.enqueue(Told()).state == "queued"
