"""Events are written with their transaction, by anyone and by handlers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, transaction
from pydantic import BaseModel

import jobs
from jobs import context, events
from jobs.engine import claims, outbox
from jobs.engine import sql as engine_sql
from jobs.engine.claims import Success
from jobs.errors import EventError
from jobs.testing import run_jobs
from tests.jobs.crowd import at_once
from tests.jobs.factories import (
    WORKER,
    a_claim,
    ended,
    settle,
)
from tests.jobs.outbox.telling import Telling, payloads, relay, waiting

pytestmark = pytest.mark.django_db


# ---- writing


def test_an_event_is_told_as_it_was_written() -> None:
    event_id = jobs.emit("order.paid", {"order": 7}, key="order:7", tenant="acme")
    assert waiting() == [("order.paid", "pending")]
    assert outbox.relay_once() == outbox.Relayed(published=1)
    [event] = jobs.events.feed()
    assert (event.id, event.topic, event.key, event.tenant, event.audience, event.payload) == (
        *(event_id, "order.paid", "order:7", "acme", "tenant"),
        {"order": 7},
    )
    assert event.position == jobs.events.feed_head() and waiting() == []


def test_an_event_of_a_rolled_back_transaction_is_never_told() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        jobs.emit("order.paid", {})
        raise ZeroDivisionError
    assert relay() == []


def test_many_events_are_told_together_in_their_order() -> None:
    made = [events.message("order.paid", {"n": n}, key="k", tenant="acme") for n in range(2500)]
    ids = events.emit_many(made)
    assert ids == [each.id for each in made]
    while outbox.relay_once().moved:
        pass
    page = jobs.events.feed(limit=1000)
    found = list(page)
    while not page.is_end:
        page = jobs.events.feed(page.position, limit=1000)
        found += page
    assert [event.id for event in found] == ids
    assert [event.payload["n"] for event in found] == list(range(2500))
    assert events.emit_many([]) == []


def test_of_many_events_all_are_told_or_none() -> None:
    def some() -> Iterator[events.Message]:
        yield events.message("order.paid", {})
        yield events.message("jobs.mine", {})

    with pytest.raises(EventError, match="reserved"):
        events.emit_many(some())
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        events.emit_many([events.message("order.paid", {})])
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
    [event] = jobs.events.feed(topics="order.*")
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
    assert "at_once: a coroutine publishes its events with the job's success" in run.errors[0]
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
