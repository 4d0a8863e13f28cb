"""Several breakers around one block, entered by one statement."""

from __future__ import annotations

import asyncio
import threading

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction

import jobs
from jobs import flow
from jobs.models import Breaker
from jobs.testing import Clock
from tests.jobs.breakers.failing import Down, fail, opened, state
from tests.wait import wait_until

pytestmark = pytest.mark.django_db


def test_each_counts_for_itself(name: str) -> None:
    one = jobs.breaker(f"{name}:1", threshold=1, counts=Down)
    two = jobs.breaker(f"{name}:2", threshold=1, counts=KeyError)
    with pytest.raises(Down), flow.together(one, two):
        raise Down
    assert state(one.name) == "open"
    assert not Breaker.objects.filter(name=two.name).exists()


def test_where_one_is_open_nobody_calls_and_none_is_probed(name: str, clock: Clock) -> None:
    due = opened(f"{name}:due", open_for=10)
    clock.tick(20)
    shut = opened(f"{name}:shut", open_for=100)
    for members in ((due, shut), (shut, due)):
        with pytest.raises(jobs.effects.CircuitOpen) as caught, flow.together(*members):
            pytest.fail("it was called")
        assert caught.value.name == shut.name
    assert state(due.name) == "open"
    with due:
        pass
    assert state(due.name) == "closed"


def test_all_that_are_due_are_probed_at_once(name: str, clock: Clock) -> None:
    one, two = opened(f"{name}:1"), opened(f"{name}:2")
    clock.tick(200)
    with flow.together(one, two, jobs.breaker(f"{name}:3")):
        assert (state(one.name), state(two.name)) == ("half_open", "half_open")
        with pytest.raises(jobs.effects.CircuitOpen), flow.together(two):
            pytest.fail("it was called")
    assert (state(one.name), state(two.name)) == ("closed", "closed")


def test_a_probe_that_fails_opens_them_again(name: str, clock: Clock) -> None:
    one, two = opened(f"{name}:1"), opened(f"{name}:2")
    clock.tick(200)
    with pytest.raises(Down), flow.together(one, two):
        raise Down
    assert (state(one.name), state(two.name)) == ("open", "open")


def test_a_success_ends_the_row_of_failures(name: str) -> None:
    one = jobs.breaker(name, threshold=2)
    fail(one)
    with flow.together(one):
        pass
    fail(one)
    assert state(name) == "closed"


def test_in_a_coroutine(name: str) -> None:
    one, two = (jobs.breaker(f"{name}:{n}", threshold=1) for n in (1, 2))

    async def use() -> None:
        async with flow.together(one, two):
            await asyncio.sleep(0)
            raise Down

    with pytest.raises(Down):
        async_to_sync(use)()
    assert (state(one.name), state(two.name)) == ("open", "open")
    with pytest.raises(jobs.effects.CircuitOpen):
        async_to_sync(use)()


@pytest.mark.parametrize("number", [0, 2])
def test_wrong_members_are_refused(name: str, number: int) -> None:
    with pytest.raises(jobs.errors.BreakerError, match="different names"):
        flow.together(*[jobs.breaker(name)] * number)


def test_inside_a_transaction_it_is_refused(name: str) -> None:
    with (
        transaction.atomic(),
        pytest.raises(jobs.errors.BreakerError, match="rolled back with it"),
        flow.together(jobs.breaker(name)),
    ):
        pytest.fail("it was called")


@pytest.mark.django_db(transaction=True)
def test_of_many_that_race_for_two_probes_one_gets_both(name: str) -> None:
    for n in (1, 2):
        opened(f"{name}:{n}", open_for=0.05)
    barrier, calls, gone = threading.Barrier(8), list[int](), list[int]()

    def ask(backwards: bool) -> None:
        members = [jobs.breaker(f"{name}:{n}") for n in (1, 2)]
        barrier.wait(30)
        try:
            while not calls:
                try:
                    with flow.together(*(reversed(members) if backwards else members)):
                        calls.append(1)
                        wait_until(lambda: len(gone) == 7, message="the others were refused")
                except jobs.effects.CircuitOpen:
                    pass
        finally:
            gone.append(1)
            connection.close()

    threads = [threading.Thread(target=ask, args=(n % 2 == 0,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(calls) == 1
    assert {state(f"{name}:{n}") for n in (1, 2)} == {"closed"}
