"""Breakers around calls: async ones, in jobs, and many at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

import jobs
from jobs.context import Context
from jobs.engine import sql as engine_sql
from jobs.models import Audit, Breaker
from jobs.operate import breakers as operate
from jobs.registry import unregister
from jobs.testing import Clock, run_jobs
from tests.jobs.breakers.failing import Down, fail, failing, opened, state
from tests.jobs.factories import row

pytestmark = pytest.mark.django_db


# ---- async, transactions, bad arguments


def test_async_blocks(name: str) -> None:
    from asgiref.sync import async_to_sync

    breaker = jobs.breaker(name, threshold=1)

    async def use() -> None:
        async with breaker:
            await asyncio.sleep(0)
            raise Down

    with pytest.raises(Down):
        async_to_sync(use)()
    with pytest.raises(jobs.effects.CircuitOpen):
        async_to_sync(use)()


def test_the_sync_form_says_what_coroutines_should_say(name: str) -> None:
    async def use() -> None:
        jobs.breaker(name).call(pytest.fail)

    with pytest.raises(jobs.errors.BreakerError, match="async with"):
        asyncio.run(use())


@pytest.mark.parametrize("call", [lambda: 7, failing])
def test_a_call_stands_that_cannot_be_counted(
    name: str, monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]
) -> None:
    def away(statement: str, parameters: Any) -> Any:
        raise OperationalError("the database is away")

    breaker = jobs.breaker(name)
    ends = []
    try:
        with breaker:
            monkeypatch.setattr(engine_sql, "bound_rows", away)
            ends.append(call())
    except Down as error:
        ends.append(error)
    assert len(ends) == 1


def test_inside_a_transaction_it_is_refused(name: str) -> None:
    with transaction.atomic(), pytest.raises(jobs.errors.BreakerError, match="rolled back with it"):
        jobs.breaker(name).call(pytest.fail)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"name": ""}, "name is empty"),
        ({"name": "a\0"}, "name contains"),
        ({"name": None}, "name must be text"),
        ({"threshold": 0}, "threshold"),
        ({"threshold": True}, "threshold"),
        ({"threshold": 1.5}, "threshold"),
        ({"open_for": 0}, "open_for"),
        ({"open_for": float("nan")}, "open_for"),
        ({"open_for": timedelta(days=2)}, "open_for"),
        ({"open_for": "60"}, "open_for"),
        ({"probe_for": -1}, "probe_for"),
        ({"counts": ()}, "counts"),
        ({"counts": (Down, "x")}, "counts"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(jobs.errors.BreakerError, match=problem):
        jobs.breaker(**{"name": "x", **arguments})


# ---- jobs


class Guarded(jobs.Payload, kind="test.guarded_call"):
    pass


@pytest.fixture
def guarded(name: str) -> Iterator[Callable[[], None]]:
    """What the service does; by default it is down."""
    service = {"call": failing}

    def handle(ctx: Context, payload: Guarded) -> None:
        with jobs.breaker(name, threshold=2, open_for=100):
            service["call"]()

    jobs.handler(Guarded, max_attempts=2, backoff=jobs.backoff.Immediate())(handle)
    yield lambda: service.update(call=lambda *_: None)
    unregister(Guarded.kind)


def test_an_open_circuit_delays_jobs_without_using_attempts(
    name: str, clock: Clock, guarded: Callable[[], None]
) -> None:
    jobs.enqueue(Guarded())
    assert run_jobs().failed == 1  # two failures: the circuit is open
    waiting = jobs.enqueue(Guarded()).id
    run = run_jobs()
    assert (len(run), run.waiting) == (1, 1)
    job = row(waiting)
    assert (job.state, job.failures, job.error) == ("pending", 0, "")
    assert f"circuit {name}" in job.history[-1][4]
    assert 100 <= (job.run_at - clock.now).total_seconds() <= 105
    clock.tick(50)
    assert len(run_jobs()) == 0
    guarded()
    clock.tick(60)
    assert run_jobs().succeeded == 1
    assert row(waiting).failures == 0
    assert state(name) == "closed"


@pytest.mark.parametrize("how", ["passes", "from", "from none", "retry after", "effect"])
def test_a_failed_probe_costs_its_job_no_attempt(name: str, clock: Clock, how: str) -> None:
    def handle(ctx: Context, payload: Guarded) -> None:
        breaker = jobs.breaker(name, threshold=2, open_for=100)
        try:
            if how == "effect":
                ctx.effect("send", lambda: breaker.call(failing), on_doubt="rerun")
            else:
                breaker.call(failing)
        except Down as error:
            if how == "from":
                raise ValueError("in other words") from error
            if how == "from none":
                raise ValueError("in other words") from None
            if how == "retry after":
                raise jobs.RetryAfter(300) from error
            raise

    jobs.handler(Guarded, max_attempts=1)(handle)
    try:
        opened(name)
        clock.tick(100)
        probing = jobs.enqueue(Guarded()).id
        assert run_jobs().waiting == 1
        job = row(probing)
        assert (job.state, job.failures, state(name)) == ("pending", 0, "open")
        assert f"circuit {name} is open" in job.history[-1][4]
        # Those who meet the circuit from now on come back earlier, and one of them probes.
        wait = (job.run_at - clock.now).total_seconds()
        assert wait == (300 if how == "retry after" else 105)
        operate.reset(name, by="ann", reason="they are back")
        assert row(probing).run_at <= clock.now
        assert run_jobs().failed == 1, "with a closed circuit a failure is a failure"
    finally:
        unregister(Guarded.kind)


def raise_mistake() -> None:
    raise KeyError("a mistake of the handler")


@pytest.mark.parametrize("how", ["own error", "unrecoverable"])
def test_what_a_job_is_to_blame_for_counts_also_while_it_probes(
    name: str, clock: Clock, how: str
) -> None:
    def handle(ctx: Context, payload: Guarded) -> None:
        try:
            jobs.breaker(name, threshold=2, open_for=100).call(failing)
        except Down as error:
            if how == "unrecoverable":
                raise jobs.Unrecoverable("it is over") from error
            raise_mistake()

    jobs.handler(Guarded, max_attempts=1)(handle)
    try:
        opened(name)
        clock.tick(100)
        probing = jobs.enqueue(Guarded()).id
        assert run_jobs().failed == 1
        assert row(probing).failures == 1
    finally:
        unregister(Guarded.kind)


def test_an_error_object_that_is_raised_again_is_judged_anew(name: str, clock: Clock) -> None:
    error = Down("always the same object")

    def handle(ctx: Context, payload: Guarded) -> None:
        if ctx.attempt == 1:
            jobs.breaker(name, threshold=2, open_for=100).call(failing, error)
        raise error

    jobs.handler(Guarded, max_attempts=1)(handle)
    try:
        opened(name)
        clock.tick(100)
        jobs.enqueue(Guarded())
        assert run_jobs().waiting == 1
        clock.tick(200)
        assert run_jobs().failed == 1
    finally:
        unregister(Guarded.kind)


def test_the_probe_that_closes_a_circuit_releases_what_waits(
    name: str, clock: Clock, guarded: Callable[[], None]
) -> None:
    breaker = opened(name)
    other = jobs.enqueue(Guarded(), delay=5000).id
    operate.force_open(name, by="ann", reason="they said so", duration=3600)
    waiting = jobs.enqueue(Guarded()).id
    run_jobs()
    assert row(waiting).run_at >= clock.now + timedelta(seconds=3600)
    operate.force_open(name, by="ann", reason="they are back soon", duration=10)
    guarded()
    clock.tick(10)
    breaker.call(int)
    assert state(name) == "closed"
    run = run_jobs()
    assert (run.succeeded, row(waiting).state, row(other).state) == (1, "succeeded", "pending")


def test_closing_a_circuit_makes_due_what_it_has_delayed(
    name: str, clock: Clock, guarded: Callable[[], None]
) -> None:
    breaker = opened(name)
    other = jobs.enqueue(Guarded(), delay=500).id
    operate.force_open(name, by="ann", reason="they said so", duration=6000)
    waiting = jobs.enqueue(Guarded(), priority=100).id
    run_jobs()
    assert jobs.explain(waiting).codes[0] == "circuit_open"
    guarded()

    operate.reset(name, by="ann", reason="they are back")
    assert Audit.objects.get(action="breaker.close").detail["released"] == 1
    assert "circuit_open" not in jobs.explain(waiting).codes
    run = run_jobs()
    assert (run.succeeded, row(waiting).state, row(other).state) == (1, "succeeded", "pending")
    breaker.raise_if_open()


def test_an_explanation_knows_that_a_circuit_is_closed_by_now(
    name: str, clock: Clock, guarded: Callable[[], None]
) -> None:
    opened(name)
    waiting = jobs.enqueue(Guarded()).id
    run_jobs()
    Breaker.objects.filter(name=name).update(state="closed", retry_at=None)
    [reason, *_] = jobs.explain(waiting).reasons
    assert reason.code == "not_due"
    assert f"circuit {name} was open when it ran last, and is closed now" in reason.text


class Secretive(jobs.Payload, kind="test.secretive_call"):
    word: jobs.Sensitive[str]


def test_the_name_of_a_circuit_is_told_whatever_the_payload_hides(name: str, clock: Clock) -> None:
    def handle(ctx: Context, payload: Secretive) -> None:
        jobs.breaker(name).call(int)

    jobs.handler(Secretive)(handle)
    try:
        opened(name)
        waiting = jobs.enqueue(Secretive(word="open")).id
        run_jobs()
        assert f"circuit {name} is open" in row(waiting).history[-1][4]
        operate.reset(name, by="ann", reason="they are back")
        assert run_jobs().succeeded == 1
    finally:
        unregister(Secretive.kind)


# ---- races


def in_threads(count: int, work: Callable[[], None]) -> None:
    start = threading.Barrier(count)

    def run() -> None:
        start.wait(10)
        try:
            work()
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.django_db(transaction=True)
def test_no_failure_is_lost_in_a_race(name: str) -> None:
    in_threads(8, lambda: fail(jobs.breaker(name, threshold=1000), 10))
    assert Breaker.objects.get(name=name).failures == 80


@pytest.mark.django_db(transaction=True)
def test_of_many_that_race_for_the_probe_one_gets_it(name: str) -> None:
    breaker = opened(name)
    for _ in range(5):
        Breaker.objects.filter(name=name).update(retry_at=datetime.fromisoformat("2020-01-01T00Z"))
        probes: list[int] = []
        refused: list[int] = []
        decided = threading.Barrier(8)

        def try_it(
            probes: list[int] = probes,
            refused: list[int] = refused,
            decided: threading.Barrier = decided,
        ) -> None:
            try:
                with breaker:
                    probes.append(1)
                    decided.wait(10)  # until everybody has asked
                    raise Down
            except jobs.effects.CircuitOpen:
                refused.append(1)
                decided.wait(10)
            except Down:
                pass

        in_threads(8, try_it)
        assert (len(probes), len(refused)) == (1, 7)
        assert state(name) == "open"
