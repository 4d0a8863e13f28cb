"""The outbox: events are told with their transaction, in order, and none is lost or skipped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from pydantic import BaseModel

import jobs
from jobs import context, events
from jobs.engine import claims, closures, outbox, pushes, reconcile
from jobs.engine import sql as engine_sql
from jobs.engine.claims import Success
from jobs.engine.relay import Relay
from jobs.errors import EventError
from jobs.models import Feed, Outbox
from jobs.operate import blackouts
from jobs.operate import outbox as desk
from jobs.operate.pauses import pause, resume
from jobs.states import OUTBOX_EDGES, OutboxState, moves
from jobs.testing import run_jobs
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
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


class Telling(jobs.Payload, kind="test.telling"):
    how: str = "buffered"
    fail: bool = False


class Told(jobs.Payload, kind="test.told"):
    pass


@pytest.fixture(autouse=True)
def kinds() -> Iterator[None]:
    @jobs.handler(Telling, max_attempts=2, backoff=jobs.Fixed(60))
    def telling(ctx: jobs.Context, payload: Telling) -> None:
        if payload.how == "atomic":
            with transaction.atomic():
                ctx.emit("order.paid", {"n": 1})
        else:
            ctx.emit("order.paid", {"n": 1}, at_once=payload.how == "at once")
        if payload.fail:
            raise ValueError("secret of ann@example.com")

    @jobs.handler(Told, emits=True, max_attempts=2, backoff=jobs.Fixed(60))
    def told(ctx: jobs.Context, payload: Told) -> None:
        """Its moves are told."""

    yield
    jobs.registry.unregister("test.telling")
    jobs.registry.unregister("test.told")


@pytest.fixture
def subscribe() -> Iterator[Callable[..., None]]:
    names: list[str] = []

    def register(function: Callable[[jobs.Event], object], *topics: str) -> None:
        names.append(f"test-{len(names)}")
        events.subscriber(*topics, name=names[-1])(function)

    yield register
    for name in names:
        events.unsubscribe(name)


def waiting() -> list[tuple[str, str]]:
    """Topics and states of the rows in the outbox, in their order."""
    return list(Outbox.objects.order_by("id").values_list("topic", "state"))


def published() -> list[str]:
    return [event.topic for event in jobs.feed()]


def relay() -> list[str]:
    """The topics of the feed, once nothing is left to be moved."""
    while outbox.relay_once().moved:
        pass
    return published()


def payloads(topic: str) -> list[dict[str, Any]]:
    relay()
    return [event.payload for event in jobs.feed(topics=topic)]


def number(topic: str) -> int:
    return Outbox.objects.get(topic=topic).id


# ---- writing


def test_an_event_is_told_as_it_was_written() -> None:
    event_id = jobs.emit("order.paid", {"order": 7}, key="order:7", tenant="acme")
    assert waiting() == [("order.paid", "pending")]
    assert outbox.relay_once() == outbox.Relayed(published=1)
    [event] = jobs.feed()
    assert (event.id, event.topic, event.key, event.tenant, event.audience, event.payload) == (
        *(event_id, "order.paid", "order:7", "acme", "tenant"),
        {"order": 7},
    )
    assert event.position == jobs.feed_head() and waiting() == []


def test_an_event_of_a_rolled_back_transaction_is_never_told() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        jobs.emit("order.paid", {})
        raise ZeroDivisionError
    assert relay() == []


def test_a_pydantic_model_is_a_payload() -> None:
    class Paid(BaseModel):
        order: int
        at: datetime

    jobs.emit("order.paid", Paid(order=1, at=datetime(2026, 1, 2, tzinfo=UTC)))
    assert payloads("order.paid") == [{"order": 1, "at": "2026-01-02T00:00:00Z"}]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("", {}), "topic"),
        (("a b", {}), "topic"),
        (("x" * 121, {}), "topic: is longer"),
        (("jobs.job.failed", {}), "reserved"),
        (("JOBS.x", {}), "reserved"),
        ((7, {}), "topic: must be text"),
        (("a", [1]), "payload: must be a dict"),
        (("a", {"x": float("nan")}), "payload.x: is not a finite number"),
        (("a", {"x": ["\0"]}), r"payload.x\[0\]: contains a NUL"),
        (("a", {"x": "y" * 20000}), "payload: is 20008 bytes of JSON, the limit is 16384"),
    ],
)
def test_a_bad_event_is_refused_before_anything_is_written(
    arguments: tuple[Any, Any], problem: str
) -> None:
    with pytest.raises(EventError, match=problem):
        jobs.emit(*arguments)
    assert waiting() == []


@pytest.mark.parametrize(
    "options",
    [{"key": "k" * 201}, {"key": "a\nb"}, {"tenant": "\0"}, {"audience": "world"}, {"key": 5}],
)
def test_a_bad_option_is_named(options: dict[str, Any]) -> None:
    [name] = options
    with pytest.raises(EventError, match=f"^{name}: "):
        jobs.emit("a", {}, **options)


def test_a_redactor_has_the_last_word() -> None:
    events.set_redactor(lambda topic, payload: {**payload, "mail": "***", "of": topic})
    try:
        jobs.emit("user.made", {"id": 1, "mail": "ann@example.com"})
    finally:
        events.set_redactor(None)
    assert payloads("user.made") == [{"id": 1, "mail": "***", "of": "user.made"}]


# ---- from handlers


def test_what_a_handler_tells_is_told_with_its_success() -> None:
    job_id = jobs.enqueue(Telling(), tenant="acme").id
    assert run_jobs().succeeded == 1
    relay()
    [event] = jobs.feed(topics="order.*")
    assert (event.key, event.tenant, event.payload) == (f"job:{job_id}", "acme", {"n": 1})


def test_what_an_attempt_wanted_told_that_failed_is_not() -> None:
    jobs.enqueue(Telling(fail=True))
    assert run_jobs().waiting == 1
    assert "order.paid" not in relay()


@pytest.mark.parametrize("how", ["at once", "atomic"])
def test_what_was_committed_is_told_whatever_becomes_of_the_attempt(how: str) -> None:
    jobs.enqueue(Telling(how=how, fail=True))
    assert run_jobs().waiting == 1
    assert relay().count("order.paid") == 1


def test_what_a_stale_attempt_wanted_told_is_not() -> None:
    stale, good = a_claim(), a_claim()
    settle(ended(stale, "released"))
    made = [events.message("order.paid", {"n": n}) for n in range(3)]
    told = [Success(stale, "1", made[:1]), Success(good, "1", made[1:])]
    assert claims.settle_successes(told, WORKER) == {good.id}
    assert [p["n"] for p in payloads("order.paid")] == [1, 2]


@pytest.fixture
def in_coroutine() -> Iterator[None]:
    class Waits(jobs.Payload, kind="test.waits"):
        at_once: bool = False

    @jobs.handler(Waits, max_attempts=1)
    async def waits(ctx: jobs.Context, payload: Waits) -> None:
        ctx.emit("order.paid", {"n": 1}, at_once=payload.at_once)

    jobs.enqueue(Waits())
    jobs.enqueue(Waits(at_once=True))
    yield
    jobs.registry.unregister("test.waits")


def test_a_coroutine_tells_with_its_success_and_not_before(in_coroutine: None) -> None:
    run = run_jobs()
    assert (run.succeeded, run.failed) == (1, 1)
    assert "at_once: a coroutine tells its events with the job's success" in run.errors[0]
    assert relay().count("order.paid") == 1


def test_an_attempt_keeps_so_many_events_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "EVENT_LIMIT", 0)
    jobs.enqueue(Telling())
    assert "an attempt keeps at most 0 events" in run_jobs().errors[0]


@pytest.mark.django_db(transaction=True)
def test_to_ask_for_a_transaction_opens_no_connection() -> None:
    def ask() -> tuple[bool, bool]:
        connection.close()
        return engine_sql.in_transaction(), connection.connection is None

    assert at_once([ask]) == [(False, True)]


# ---- what the core tells


def topics_of(job_id: UUID) -> list[str]:
    relay()
    return [e.topic.removeprefix("jobs.job.") for e in jobs.feed() if e.key == f"job:{job_id}"]


def test_every_move_of_a_kind_that_asks_is_told() -> None:
    claim = a_claim(Told(), tenant="acme")
    settle(ended(claim, "failed"))
    job_id = claim.id
    succeed(claim_again(job_id))
    assert topics_of(job_id) == ["claimed", "retried", "claimed", "succeeded"]
    retried = next(e for e in jobs.feed() if e.topic == "jobs.job.retried")
    assert retried.tenant == "acme" and retried.audience == "tenant"
    assert retried.payload["kind"] == "test.told" and retried.payload["failures"] == 1
    assert retried.payload["error"] == "ValueError"


def test_of_other_kinds_only_the_final_failure_is_told_and_never_its_text() -> None:
    assert topics_of(a_job("succeeded")) == []
    claim = a_claim(Telling(), max_attempts=1)
    settle(ended(claim, "failed"))
    assert topics_of(claim.id) == ["failed"]
    [event] = jobs.feed(topics="jobs.job.failed")
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


def told(topics: str) -> list[jobs.Event]:
    relay()
    return list(jobs.feed(topics=topics))


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


# ---- subscribers


def test_a_subscriber_is_told_its_topics_with_their_positions(subscribe: Any) -> None:
    heard: list[jobs.Event] = []
    subscribe(heard.append, "order.*", "user.made")
    for topic in ("order.paid", "price.up", "user.made", "user.gone"):
        jobs.emit(topic, {"t": topic})
    assert relay() == ["order.paid", "price.up", "user.made", "user.gone"]
    assert heard == list(jobs.feed(topics=["order.*", "user.made"]))


def test_what_a_subscriber_writes_is_written_with_the_event(subscribe: Any) -> None:
    def enqueue(event: jobs.Event) -> None:
        jobs.enqueue(Noop(data=str(event.id)))
        if event.payload["n"] == 1 and Outbox.objects.get(event_id=event.id).tries == 0:
            raise ValueError("not now")

    subscribe(enqueue)
    ids = [jobs.emit("order.paid", {"n": n}) for n in range(2)]
    assert outbox.relay_once() == outbox.Relayed(published=1, failed=1)
    assert [job.payload["data"] for job in jobs.Job.objects.all()] == [str(ids[0])]


def test_a_failing_event_holds_back_its_own_key_only(
    subscribe: Any, set_clock: Callable[[datetime | None], None]
) -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    set_clock(now)
    broken = True
    heard: list[str] = []

    def hear(event: jobs.Event) -> None:
        if event.topic == "a.1" and broken:
            raise ValueError("no")
        heard.append(f"{event.tenant}{event.topic}")

    subscribe(hear)
    for topic, key, tenant in [
        ("a.1", "a", ""),
        ("a.2", "a", ""),
        ("b.1", "b", ""),
        ("c.1", "", ""),
        ("a.1x", "a", "acme"),
    ]:
        jobs.emit(topic, {}, key=key, tenant=tenant)
    assert relay() == ["b.1", "c.1", "a.1x"]
    jobs.emit("a.3", {}, key="a")
    assert relay() == ["b.1", "c.1", "a.1x"]
    assert Outbox.objects.filter(held=True).count() == 2
    [stuck] = desk.events()
    assert (stuck.topic, stuck.state, stuck.tries, stuck.holds_back) == ("a.1", "failed", 1, 2)
    assert stuck.error == "ValueError: no"
    broken = False
    assert outbox.relay_once().moved == 0, "its time has not come"
    jobs.emit("a.4", {}, key="a")
    set_clock(now + timedelta(seconds=1))
    assert relay() == ["b.1", "c.1", "a.1x", "a.1", "a.2", "a.3", "a.4"]
    assert heard == ["b.1", "c.1", "acmea.1x", "a.1", "a.2", "a.3", "a.4"]


def test_an_event_that_fails_too_often_is_parked_and_says_so(
    subscribe: Any, set_clock: Callable[[datetime | None], None], caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def refuse(event: jobs.Event) -> None:
        raise ValueError("never")

    subscribe(refuse, "a.*")
    jobs.emit("a.1", {}, key="a")
    jobs.emit("a.2", {}, key="a")
    pauses = []
    for _ in range(outbox.TRIES):
        set_clock(now)
        assert outbox.relay_once().failed == 1
        row = Outbox.objects.get(topic="a.1")
        if row.due_at:
            pauses.append((row.due_at - now).total_seconds())
            now = row.due_at
    assert pauses == [1, 2, 4, 8, 16, 32, 64]
    assert relay() == ["jobs.event.parked"]
    [parked] = desk.events()
    assert (parked.state, parked.tries, parked.holds_back) == ("parked", 8, 1)
    assert "parked after 8 tries; events of key 'a' wait behind it" in caplog.text
    history = [move[1:3] for move in Outbox.objects.get(topic="a.1").history]
    assert history[:2] == [["pending", "failed"], ["failed", "pending"]]
    assert history[-1] == ["pending", "parked"]


# ---- what people decide


def test_a_parked_event_waits_for_somebody_and_its_key_with_it() -> None:
    jobs.emit("a.1", {}, key="a")
    jobs.emit("a.2", {}, key="a")
    desk.park(number("a.1"), by="ann", reason="wrong")
    assert relay() == ["jobs.event.parked"]
    desk.publish(number("a.1"), by="ann", reason="right after all")
    assert relay() == ["jobs.event.parked", "a.1", "a.2"]


def test_a_discarded_event_is_never_told_and_lets_the_others_go() -> None:
    for topic in ("a.1", "a.2", "a.3"):
        jobs.emit(topic, {}, key="a")
    desk.park(number("a.1"), by="ann", reason="wrong")
    relay()
    desk.park(number("a.2"), by="ann", reason="wrong, too")
    desk.discard(number("a.1"), by="ann", reason="no use")
    assert [t for t in relay() if t.startswith("a.")] == []
    desk.discard(number("a.2"), by="bob", reason="no use")
    assert [t for t in relay() if t.startswith("a.")] == ["a.3"]
    row = Outbox.objects.get(topic="a.2")
    assert row.history[-1][1:] == ["parked", "discarded", "bob", "no use"]


def test_what_waits_behind_a_held_event_comes_after_it() -> None:
    """Also what is written between the release and the next portion."""
    jobs.emit("a.1", {}, key="a")
    jobs.emit("a.2", {}, key="a")
    desk.park(number("a.1"), by="ann", reason="wrong")
    relay()
    jobs.emit("a.3", {}, key="a")
    desk.publish(number("a.1"), by="ann", reason="right")
    for _ in range(5):
        outbox.relay_once(1)
    assert relay() == ["jobs.event.parked", "a.1", "a.2", "a.3"]


@pytest.mark.parametrize("action", [desk.park, desk.publish, desk.discard])
def test_an_action_names_what_is_wrong(action: Any) -> None:
    jobs.emit("a.1", {})
    found = number("a.1")
    for arguments, problem in [
        ((found, {"by": "", "reason": "x"}), "^by: "),
        ((found, {"by": "ann", "reason": ""}), "^reason: "),
        ((0, {"by": "ann", "reason": "x"}), "there is no event 0"),
        (("1", {"by": "ann", "reason": "x"}), "there is no event '1'"),
    ]:
        with pytest.raises(jobs.JobsError, match=problem):
            action(arguments[0], **arguments[1])
    assert waiting() == [("a.1", "pending")]


def test_only_what_is_stuck_is_published_by_hand() -> None:
    jobs.emit("a.1", {})
    with pytest.raises(EventError, match="it is pending; it must be failed or parked"):
        desk.publish(number("a.1"), by="ann", reason="hurry")
    desk.discard(number("a.1"), by="ann", reason="x")
    with pytest.raises(EventError, match="it is discarded"):
        desk.discard(number("a.1"), by="ann", reason="x")


# ---- what the database refuses

_SHAPES = {
    "pending": "due_at = NULL, position = NULL, closed_at = NULL",
    "failed": "due_at = jobs_clock(), position = NULL, closed_at = NULL",
    "parked": "due_at = NULL, position = NULL, closed_at = NULL",
    "published": "due_at = NULL, position = 1, closed_at = jobs_clock()",
    "discarded": "due_at = NULL, position = NULL, closed_at = jobs_clock()",
}
_WAYS: dict[str, tuple[str, ...]] = {
    "pending": (),
    "failed": ("failed",),
    "parked": ("parked",),
    "published": ("published",),
    "discarded": ("discarded",),
}


def brought(state: str) -> None:
    sql(f"UPDATE jobs_outbox SET state = %s, {_SHAPES[state]}", [state])  # noqa: S608


@pytest.mark.parametrize("source", list(OutboxState))
@pytest.mark.parametrize("target", list(OutboxState))
def test_the_database_allows_the_edges_and_nothing_else(source: str, target: str) -> None:
    if source == target:
        return
    jobs.emit("a.1", {})
    for step in _WAYS[source]:
        brought(step)
    if (source, target) in moves(OUTBOX_EDGES):
        brought(target)
        assert Outbox.objects.get().history[-1][1:3] == [source, target]
    else:
        with pytest.raises(IntegrityError, match="illegal move"), transaction.atomic():
            brought(target)


@pytest.mark.parametrize("state", ["pending", "failed", "parked"])
def test_an_event_that_was_not_told_cannot_be_deleted(state: str) -> None:
    jobs.emit("a.1", {})
    if state != "pending":
        brought(state)
    with pytest.raises(IntegrityError, match="cannot be deleted"), transaction.atomic():
        sql("DELETE FROM jobs_outbox")


@pytest.mark.parametrize(
    ("constraint", "columns"),
    [
        ("jobs_outbox_published_has_position", "state = 'published', closed_at = jobs_clock()"),
        ("jobs_outbox_published_has_position", "position = 7"),
        ("jobs_outbox_failed_has_time", "state = 'failed'"),
        ("jobs_outbox_closed_has_time", "state = 'discarded'"),
        ("jobs_outbox_held_waits", "state = 'parked', held = true"),
        ("jobs_outbox_audience_known", "audience = 'world'"),
        ("jobs_outbox_mover_consumed", "moved_by = 'me'"),
    ],
)
def test_an_impossible_row_is_refused(constraint: str, columns: str) -> None:
    jobs.emit("a.1", {})
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        sql(f"UPDATE jobs_outbox SET {columns}")  # noqa: S608


def test_an_event_is_born_pending() -> None:
    with pytest.raises(IntegrityError, match="cannot be born"), transaction.atomic():
        sql(
            "INSERT INTO jobs_outbox (topic, payload, state, position, closed_at) "
            "VALUES ('a', '{}', 'published', 1, jobs_clock())"
        )


# ---- the relay


def test_a_relay_moves_all_of_a_backlog_in_order() -> None:
    for n in range(outbox.PORTION + 20):
        jobs.emit("a.1", {"n": n})
    one, other = Relay(), Relay()
    assert one.work(10) == outbox.PORTION + 20
    assert (one.is_lively, other.is_lively) == (True, False)
    found = list(Feed.objects.order_by("position").values_list("position", "payload__n"))
    assert [n for _, n in found] == list(range(outbox.PORTION + 20))
    positions = [position for position, _ in found]
    assert positions == list(range(positions[0], positions[0] + len(positions)))
