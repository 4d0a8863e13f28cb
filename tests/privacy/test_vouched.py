"""What a handler has composed itself, and vouches for, is stored as it is."""

from __future__ import annotations

from typing import Any

import pytest

import jobs
from jobs import events, registry, testing
from jobs.jsontext import UnstorableValue
from jobs.models import Effect
from jobs.redaction import redact_text, scrubbing, storable


class Order(jobs.Payload, kind="privacy.order"):
    """An order whose secrets are words that the handler uses, too."""

    words: jobs.Sensitive[list[str]]


WORDS = ["1", "sent", "2026", "status", "zaunkoenig"]
OWN = {"status": "sent", "attempt": 1, "at": "2026-11-19"}
SCRUBBED = {"***": "***", "attempt": "***", "at": "***-11-19"}


@pytest.fixture
def run(db: None, keys: Any) -> Any:
    """Run a handler once; return its job."""

    def once(function: Any) -> jobs.Job:
        jobs.handler(Order, max_attempts=1)(function)
        try:
            made = jobs.enqueue(Order(words=WORDS))
            testing.run_jobs()
            return jobs.Job.objects.get(pk=made.id)
        finally:
            registry.unregister(Order.kind)

    return once


@pytest.mark.parametrize(
    ("given", "kept"), [(OWN, SCRUBBED), (jobs.types.Vouched(OWN), OWN)], ids=["plain", "vouched"]
)
def test_results_events_and_effects_are_kept_as_their_author_says(
    run: Any, given: Any, kept: Any
) -> None:
    def handle(ctx: jobs.Context, payload: Order) -> Any:
        assert ctx.effect("one", lambda: given, request=given) == kept
        ctx.emit("order.own", given)
        jobs.emit("order.own", given)
        ctx.progress(1, 2026, "zaunkoenig was sent")
        return given

    job = run(handle)
    assert (job.state, job.result) == ("succeeded", kept)
    assert [event.payload for event in testing.emitted("order.own")] == [kept, kept]
    [effect] = Effect.objects.all()
    assert (effect.request, effect.outcome) == (kept, kept)
    assert job.progress == {"done": 1, "total": 2026, "note": "*** was ***"}


def test_other_words_are_masked_by_whoever_vouches(run: Any) -> None:
    def handle(ctx: jobs.Context, payload: Order) -> Any:
        return jobs.types.Vouched({"status": "sent", "answer": redact_text("no zaunkoenig here")})

    assert run(handle).result == {"status": "sent", "answer": "no *** here"}


def test_what_a_probe_learned_may_be_vouched_for(run: Any) -> None:
    def handle(ctx: jobs.Context, payload: Order) -> Any:
        def call() -> Any:
            raise TimeoutError

        with pytest.raises(TimeoutError):
            ctx.effect("one", call)
        return ctx.effect(
            "one", call, probe=lambda intent: jobs.effects.Happened(jobs.types.Vouched(OWN))
        )

    assert run(handle).state == "succeeded"
    assert Effect.objects.get().outcome == OWN


def test_one_vouches_for_the_whole_and_not_for_a_part() -> None:
    with pytest.raises(UnstorableValue):
        storable({"status": jobs.types.Vouched("sent")}, 1000)


def test_a_vouched_event_is_checked_and_redacted_like_any(db: None) -> None:
    with pytest.raises(jobs.errors.EventError, match="must be a dict or a pydantic model, got str"):
        jobs.emit("order.own", jobs.types.Vouched("sent"))
    events.set_redactor(lambda topic, payload: {**payload, "more": topic})
    try:
        with scrubbing(WORDS):
            jobs.emit("order.own", jobs.types.Vouched(OWN))
    finally:
        events.set_redactor(None)
    [event] = testing.emitted("order.own")
    assert event.payload == {**OWN, "more": "order.own"}
