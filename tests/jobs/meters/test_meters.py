"""Meters in handlers and outside of them: waiting, putting off, closing, reopening."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

import jobs
from jobs.context import Signal, listening
from jobs.engine import admission
from jobs.errors import InvalidOption, MeterError, UnknownTarget
from jobs.models import Audit, Effect, Meter
from jobs.operate import meters as operate
from jobs.outcomes import MeterFull
from jobs.registry import unregister
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.jobs.factories import row

pytestmark = pytest.mark.django_db
WHO = {"by": "ada", "reason": "they are well again"}


class Call(jobs.Payload, kind="test.metered_call"):
    pass


@pytest.fixture
def name() -> str:
    return f"test:{uuid4().hex[:8]}"


@pytest.fixture
def calling() -> Iterator[Callable[..., None]]:
    """Registers what the handler of ``Call`` does."""

    def register(do: Callable[[jobs.Context], Any], **options: Any) -> None:
        @jobs.handler(Call, **options)
        def call(ctx: jobs.Context, payload: Call) -> Any:
            return do(ctx)

    yield register
    unregister(Call.kind)


# ---- taking


def test_a_take_waits_for_its_moment(name: str) -> None:
    meter = jobs.meter(name, "10/s")
    meter.take()
    began = time.monotonic()
    meter.take()
    assert time.monotonic() - began >= 0.09


def test_a_take_in_a_coroutine_waits_for_its_moment(name: str) -> None:
    meter = jobs.meter(name, "10/s")

    async def use() -> float:
        await meter.take_async()
        began = time.monotonic()
        await meter.take_async()
        return time.monotonic() - began

    assert async_to_sync(use)() >= 0.09


def test_outside_of_a_handler_it_says_when_there_is_room(name: str) -> None:
    meter = jobs.meter(name, "1/m")
    meter.take()
    with pytest.raises(MeterFull, match=f"meter {name} is full for ") as caught:
        meter.take()
    assert 59 <= caught.value.delay <= 75
    with pytest.raises(MeterFull):
        meter.take(wait=5)


def test_a_job_that_would_wait_too_long_is_put_off_without_an_attempt(
    name: str, calling: Callable[..., None]
) -> None:
    meter = jobs.meter(name, "1/m")
    meter.take()
    calling(lambda ctx: meter.take(), max_attempts=1)
    job = jobs.enqueue(Call())
    run_jobs(limit=1)
    found = row(job.id)
    assert (found.state, found.failures, found.releases) == ("pending", 0, 0)
    assert found.run_at - datetime.now(UTC) > timedelta(seconds=50)
    [reason] = [r for r in jobs.explain(job.id).reasons if r.code == "metered"]
    assert (name in reason.text, reason.until) == (True, found.run_at)


def test_an_effect_that_was_put_off_is_not_in_doubt(
    name: str, calling: Callable[..., None]
) -> None:
    meter = jobs.meter(name, "1/m")
    meter.take()
    calling(lambda ctx: ctx.effect("call", meter.take))
    jobs.enqueue(Call())
    run_jobs(limit=1)
    assert Effect.objects.get().state == "failed"


def test_a_job_that_is_told_to_stop_waits_no_longer(name: str) -> None:
    meter = jobs.meter(name, "1/m", wait=600)
    meter.take()
    reasons: list[str] = []
    threading.Timer(0.2, lambda: reasons.append("cancelled")).start()
    with (
        listening(Signal(lambda: reasons[0] if reasons else "")),
        pytest.raises(jobs.Stopped, match="cancelled"),
    ):
        meter.take()


def test_a_coroutine_that_is_cancelled_waits_no_longer(name: str) -> None:
    meter = jobs.meter(name, "1/m", wait=600)

    async def use() -> None:
        await meter.take_async()
        await asyncio.wait_for(meter.take_async(), 0.2)

    with pytest.raises(TimeoutError):
        async_to_sync(use)()


def test_a_handler_hands_its_signal_to_the_meter(
    name: str, calling: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("jobs.meters._sleep", lambda pause, signal: seen.append(signal))
    meter = jobs.meter(name, "1/m", wait=600)
    meter.take()

    def use(ctx: jobs.Context) -> None:
        meter.take()
        assert seen == [ctx.signal]

    calling(use)
    jobs.enqueue(Call())
    assert run_jobs().succeeded == 1


def test_an_answer_that_came_too_late_is_not_used(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count()
    slow = SimpleNamespace(monotonic=lambda: next(seconds), sleep=time.sleep)
    monkeypatch.setattr("jobs.meters.time", slow)
    with pytest.raises(MeterFull):
        jobs.meter(name, "100/s", wait=600).take()
    assert sum(Meter.objects.get().spent) == 3


# ---- where it is refused


def test_inside_a_transaction_it_is_refused(name: str) -> None:
    meter = jobs.meter(name, "5/s")
    with transaction.atomic(), pytest.raises(MeterError, match="would stay locked"):
        meter.take()
    with transaction.atomic(), pytest.raises(MeterError, match="would stay locked"):
        meter.close(5)
    assert not Meter.objects.exists()


def test_an_atomic_handler_is_refused(name: str, calling: Callable[..., None]) -> None:
    calling(lambda ctx: jobs.meter(name, "5/s").take(), atomic=True, max_attempts=1)
    job = jobs.enqueue(Call())
    with transaction.atomic():
        run_jobs()
    assert "would stay locked" in row(job.id).error


def test_the_sync_form_says_what_coroutines_should_say(name: str) -> None:
    async def use() -> None:
        jobs.meter(name, "5/s").take()

    with pytest.raises(MeterError, match=r"await meter\.take_async"):
        asyncio.run(use())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"name": ""}, "name is empty"),
        ({"name": "a\x00b"}, "control character"),
        ({"rate": "fast"}, "is not like"),
        ({"rate": 7}, "is not like"),
        ({"rate": "0.5/s"}, "must allow 1 to"),
        ({"burst": 0}, "must be at least 1"),
        ({"burst": 6}, "burst must be at most 5"),
        ({"wait": -1}, "wait must lie between"),
        ({"wait": 601}, "wait must lie between"),
        ({"wait": "2"}, "wait must lie between"),
        ({"wait": True}, "wait must lie between"),
    ],
)
def test_a_wrong_meter_is_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(MeterError, match=problem):
        jobs.meter(**{"name": "test", "rate": "5/m", **arguments})


@pytest.mark.parametrize("weight", [0, -1, 1.5, True, "1", 6])
def test_a_wrong_weight_is_refused(name: str, weight: Any) -> None:
    with pytest.raises(MeterError, match="weight"):
        jobs.meter(name, "5/m").take(weight)


@pytest.mark.parametrize("until", [-1, float("nan"), "soon", None, datetime(2040, 1, 1), 1e12])
def test_a_wrong_moment_is_refused(name: str, until: Any) -> None:
    with pytest.raises(MeterError, match="until"):
        jobs.meter(name, "5/m").close(until)


# ---- closing


def test_a_closed_meter_lets_nobody_call_before_its_time(name: str) -> None:
    meter = jobs.meter(name, "1000/s", burst=100)
    with freeze_clock() as clock:
        meter.close(60)
        meter.close(timedelta(seconds=30))  # a shorter time changes nothing
        for _ in range(59):
            with pytest.raises(MeterFull, match="is closed for"):
                meter.take()
            clock.tick(timedelta(seconds=1))
        clock.tick(timedelta(seconds=1))
        meter.take()
        meter.close(clock.now + timedelta(seconds=5))
        with pytest.raises(MeterFull, match="is closed for"):
            meter.take()
        clock.tick(timedelta(seconds=5))
        meter.take()


def test_what_was_reserved_is_not_used_where_the_meter_was_closed_meanwhile(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = jobs.meter(name, "2/s")
    meter.take()
    monkeypatch.setattr("jobs.meters._sleep", lambda pause, signal: meter.close(60))
    with pytest.raises(MeterFull, match="is closed for"):
        meter.take()


def test_closing_is_published_once(name: str) -> None:
    meter = jobs.meter(name, "5/s")
    meter.close(60)
    meter.close(90)
    [event] = emitted("jobs.meter.closed")
    assert (event.payload["meter"], event.audience) == (name, "staff")


def test_reopening_makes_what_was_put_off_due(name: str, calling: Callable[..., None]) -> None:
    meter = jobs.meter(name, "5/s")
    calling(lambda ctx: meter.take())
    meter.close(3600)
    job = jobs.enqueue(Call())
    other = jobs.enqueue(Call(), delay=3600)
    run_jobs(limit=1)
    assert row(job.id).state == "pending"
    operate.reopen(name, **WHO)
    assert run_jobs().succeeded == 1
    assert (row(job.id).state, row(other.id).state) == ("succeeded", "pending")
    assert Audit.objects.get(action="meter.reopen").detail["released"] == 1


def test_a_meter_that_is_open_is_not_reopened(name: str) -> None:
    jobs.meter(name, "5/s").take()
    with pytest.raises(InvalidOption, match="is not closed"):
        operate.reopen(name, **WHO)
    with pytest.raises(UnknownTarget):
        operate.reopen("unknown", **WHO)


# ---- its row


def test_meters_that_nobody_uses_are_forgotten(name: str) -> None:
    with freeze_clock() as clock:
        jobs.meter(name, "5/s").take()
        jobs.meter(f"{name}:closed", "5/s").close(timedelta(days=3))
        admission.sync_limits()
        assert Meter.objects.count() == 2
        clock.tick(timedelta(days=1, seconds=1))
        admission.sync_limits()
        assert [meter.name for meter in operate.known()] == [f"{name}:closed"]
