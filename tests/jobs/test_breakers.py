"""Circuit breakers: opened by failures in a row, probed by one, closed for all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction

import jobs
from jobs.context import Context
from jobs.engine import breakers as moves
from jobs.engine import sql as engine_sql
from jobs.models import Breaker
from jobs.operate import breakers as operate
from jobs.registry import unregister
from jobs.testing import Clock, freeze_clock, run_jobs
from tests.jobs.factories import row

pytestmark = pytest.mark.django_db


class Down(Exception):
    pass


class Refused(Exception):
    pass


@pytest.fixture
def name() -> str:
    return f"test:{uuid4().hex[:8]}"


@pytest.fixture
def clock(db: None) -> Iterator[Clock]:
    with freeze_clock() as stopped:
        yield stopped


def failing(error: BaseException | None = None) -> None:
    raise error or Down("503")


def fail(breaker: Any, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(Down):
            breaker.call(failing)


def state(name: str) -> str:
    return Breaker.objects.get(name=name).state


def opened(name: str, **options: Any) -> Any:
    """A breaker whose circuit has just opened."""
    breaker = jobs.breaker(name, **{"threshold": 2, "open_for": 100, **options})
    fail(breaker, 2)
    assert state(name) == "open"
    return breaker


# ---- closed


def test_a_breaker_that_never_failed_leaves_no_row(name: str) -> None:
    assert jobs.breaker(name).call(lambda: 7) == 7
    assert not Breaker.objects.exists()


def test_failures_in_a_row_open_the_circuit(name: str, clock: Clock) -> None:
    breaker = jobs.breaker(name, threshold=3)
    fail(breaker, 2)
    assert (state(name), Breaker.objects.get(name=name).failures) == ("closed", 2)
    fail(breaker)
    found = Breaker.objects.get(name=name)
    assert (found.state, found.failures, found.last_error) == ("open", 3, "Down: 503")
    assert found.opened_at is not None and found.retry_at is not None
    assert found.retry_at - found.opened_at == timedelta(seconds=60)


def test_a_success_ends_the_row_of_failures(name: str) -> None:
    breaker = jobs.breaker(name, threshold=2)
    for _ in range(3):
        fail(breaker)
        breaker.call(int)
    assert (state(name), Breaker.objects.get(name=name).failures) == ("closed", 0)


def test_a_threshold_of_one_opens_at_once(name: str) -> None:
    fail(jobs.breaker(name, threshold=1))
    assert state(name) == "open"


@pytest.mark.parametrize(
    ("counts", "error", "failures"),
    [
        (Exception, Down(), 2),
        (Down, Down(), 2),
        ((Down, OSError), TimeoutError(), 2),
        (Down, Refused(), 0),  # the service answered: the failure before it does not count on
        (Exception, jobs.Snooze(1), 1),  # says nothing
        (Exception, jobs.Stopped("shutdown"), 1),
        (Exception, KeyboardInterrupt(), 1),
        ((Down, jobs.RetryAfter), jobs.RetryAfter(1), 2),
    ],
)
def test_what_counts(name: str, counts: Any, error: BaseException, failures: int) -> None:
    fail(jobs.breaker(name, counts=Down))
    with pytest.raises(type(error)):
        jobs.breaker(name, counts=counts).call(failing, error)
    assert Breaker.objects.get(name=name).failures == failures


@pytest.mark.parametrize(("cause", "failures"), [(Down(), 1), (Refused(), 0)])
def test_what_did_not_happen_is_judged_by_its_cause(
    name: str, cause: Exception, failures: int
) -> None:
    with pytest.raises(jobs.NotHappened), jobs.breaker(name, counts=Down):
        raise jobs.NotHappened from cause
    assert sum(Breaker.objects.values_list("failures", flat=True)) == failures


# ---- open


def test_an_open_circuit_calls_nothing_and_says_when_to_come_back(name: str, clock: Clock) -> None:
    breaker = opened(name)
    clock.tick(40)
    with pytest.raises(jobs.CircuitOpen, match=f"circuit {name} is open") as caught:
        breaker.call(pytest.fail)
    assert 60 <= caught.value.delay <= 65
    assert state(name) == "open"


def test_those_who_come_back_are_spread(name: str, clock: Clock) -> None:
    breaker = opened(name)
    delays = set()
    for _ in range(20):
        with pytest.raises(jobs.CircuitOpen) as caught:
            breaker.call(pytest.fail)
        delays.add(caught.value.delay)
    assert len(delays) > 10


def test_a_late_failure_changes_nothing_of_an_open_circuit(name: str, clock: Clock) -> None:
    breaker = jobs.breaker(name, threshold=1, open_for=100)
    with pytest.raises(Down), breaker:
        fail(breaker)
        clock.tick(10)
        raise Down("late")
    found = Breaker.objects.get(name=name)
    assert (found.failures, found.last_error) == (1, "Down: 503")
    assert found.retry_at == clock.now + timedelta(seconds=90)


# ---- half open


def test_a_probe_that_succeeds_closes_the_circuit(name: str, clock: Clock) -> None:
    breaker = opened(name)
    clock.tick(100)
    with breaker:
        assert state(name) == "half_open"
        with pytest.raises(jobs.CircuitOpen) as caught:
            jobs.breaker(name).call(pytest.fail)
        assert caught.value.delay <= 8  # a probe is soon over
    found = Breaker.objects.get(name=name)
    assert (found.state, found.failures, found.retry_at, found.probe_token) == (
        "closed", 0, None, None,
    )  # fmt: skip


def test_a_probe_that_fails_opens_it_again(name: str, clock: Clock) -> None:
    breaker = opened(name)
    clock.tick(100)
    fail(breaker)
    found = Breaker.objects.get(name=name)
    assert (found.state, found.failures) == ("open", 3)
    assert found.retry_at == clock.now + timedelta(seconds=100)


def test_a_probe_that_learns_nothing_passes_the_turn_on(name: str, clock: Clock) -> None:
    breaker = opened(name)
    clock.tick(100)
    with pytest.raises(jobs.Snooze), breaker:
        raise jobs.Snooze(1)
    assert state(name) == "open"
    assert breaker.call(lambda: 7) == 7
    assert state(name) == "closed"


def test_a_probe_that_is_not_heard_of_is_replaced(name: str, clock: Clock) -> None:
    breaker = opened(name, probe_for=30)
    clock.tick(100)
    lost = moves.enter(name, 30)
    assert lost.probe is not None
    clock.tick(31)
    assert breaker.call(lambda: state(name)) == "half_open"
    assert state(name) == "closed"
    # The one that was lost comes back, and its word counts no more.
    moves.fail(name, lost, 2, 100, "late")
    assert state(name) == "closed"


def test_blocks_of_several_breakers_may_nest(name: str, clock: Clock) -> None:
    first, second = opened(name), opened(name + ":b")
    clock.tick(100)
    with first, second:
        assert (state(name), state(name + ":b")) == ("half_open", "half_open")
    assert (state(name), state(name + ":b")) == ("closed", "closed")


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
    with pytest.raises(jobs.CircuitOpen):
        async_to_sync(use)()


def test_the_sync_form_says_what_coroutines_should_say(name: str) -> None:
    async def use() -> None:
        jobs.breaker(name).call(pytest.fail)

    with pytest.raises(jobs.BreakerError, match="async with"):
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
    with transaction.atomic(), pytest.raises(jobs.BreakerError, match="rolled back with it"):
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
    with pytest.raises(jobs.BreakerError, match=problem):
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

    jobs.handler(Guarded, max_attempts=2, backoff=jobs.Immediate())(handle)
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


# ---- people


def test_a_person_closes_the_circuit(name: str, clock: Clock) -> None:
    breaker = opened(name)
    operate.reset(name, by="ann", reason="they are back")
    assert breaker.call(lambda: state(name)) == "closed"
    assert Breaker.objects.get(name=name).failures == 0


def test_a_probe_that_was_forgotten_by_a_reset_decides_nothing(name: str, clock: Clock) -> None:
    breaker = opened(name)
    clock.tick(100)
    with pytest.raises(Down), breaker:
        operate.reset(name, by="ann")
        raise Down
    assert (state(name), Breaker.objects.get(name=name).failures) == ("closed", 0)


def test_an_unknown_breaker_is_not_reset() -> None:
    with pytest.raises(jobs.UnknownTarget, match="there is no breaker 'nobody'"):
        operate.reset("nobody", by="ann")


def test_what_is_open_is_listed_first(name: str) -> None:
    fail(jobs.breaker("a" + name))
    opened("z" + name)
    assert [b.name for b in operate.known()] == ["z" + name, "a" + name]


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
            except jobs.CircuitOpen:
                refused.append(1)
                decided.wait(10)
            except Down:
                pass

        in_threads(8, try_it)
        assert (len(probes), len(refused)) == (1, 7)
        assert state(name) == "open"
