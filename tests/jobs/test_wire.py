"""The wire: pushes that nobody waits for, and answers that are read later."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from jobs.engine import clients, rq, wire
from tests.redis import Proxy, redis_at
from tests.wait import wait_until

pytestmark = pytest.mark.django_db  # its mark is part of every key


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no outage."""
    monkeypatch.setattr(clients, "PUSH_TIMEOUT", 10.0)


@pytest.fixture
def prompt_wire() -> Iterator[None]:
    """Here the wire is as it is."""
    yield
    wire.forget()


def send(queue: str, answers: list[Any]) -> None:
    wire.wire().run(*rq.pushing(queue, [uuid4()]), answers.append)


def test_what_is_sent_arrives_although_nobody_reads_the_answer(queue: str) -> None:
    answers: list[Any] = []
    send(queue, answers)
    wait_until(lambda: rq.length(queue) == 1)
    assert answers == []


def test_answers_come_in_the_order_of_the_pushes(queue: str) -> None:
    answers: list[Any] = []
    for _ in range(100):
        send(queue, answers)
    wire.wire().look(wait=True)
    assert [length for length, _ in answers] == list(range(1, 101))


def test_a_redis_that_forgot_the_script_is_sent_it_again(queue: str) -> None:
    answers: list[Any] = []
    send(queue, answers)
    wire.wire().look(wait=True)
    rq.client().script_flush()
    send(queue, answers)  # this one is lost, as a hint may be
    wire.wire().look(wait=True)
    send(queue, answers)
    wire.wire().look(wait=True)
    assert rq.length(queue) == 2
    assert len(answers) == 2


def test_a_cut_connection_is_opened_again(queue: str) -> None:
    answers: list[Any] = []
    send(queue, answers)
    wire.wire().cut()
    send(queue, answers)
    wire.wire().look(wait=True)
    assert len(answers) == 1
    wait_until(lambda: rq.length(queue) == 2)


def test_a_thread_that_ends_leaves_its_connection_to_the_next() -> None:
    mine = wire.wire()
    done: list[int] = []

    def body() -> None:
        wire.wire().run("return 1", [], [], done.append)

    with contextlib.closing(Proxy()) as proxy, redis_at(proxy.url):
        for _ in range(20):
            thread = threading.Thread(target=body)
            thread.start()
            thread.join()
        wait_until(lambda: len(wire._spare) == 1)
        assert proxy.accepted == 1
        assert wire.wire().ask("PING") in (b"PONG", b"OK")
    assert done == [1] * 20
    assert wire.wire() is not mine
