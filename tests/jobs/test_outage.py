"""Redis is away, silent, slow or half-open: what a request waits for it, all in all."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client, TestCase

import jobs
from jobs.engine import clients, outage, pushes, rq, wire
from jobs.operate import services
from jobs.operate.explain import explain
from tests.jobs.factories import a_job
from tests.redis import Mode, Proxy, redis_at, seconds, silent
from tests.specimens.handlers import Noop
from tests.wait import wait_until

PROMISE = 0.3
"""Seconds that a request waits for Redis at most."""
PAGE = 0.5
pytestmark = pytest.mark.django_db


@pytest.fixture
def prompt_wire() -> Iterator[None]:
    """Here the wire is as it is."""
    yield
    wire.forget()


@pytest.fixture
def proxy(queues: list[str]) -> Iterator[Proxy]:
    """The Redis of the tests is behind it, until the queues are removed."""
    with contextlib.closing(Proxy()) as made, redis_at(made.url):
        yield made


@pytest.fixture
def queues() -> Iterator[list[str]]:
    names = [f"test.{uuid4().hex[:12]}" for _ in range(6)]
    yield names
    keys = (key(name) for name in names for key in (rq.queue_key, rq._seq_key, rq._open_key))
    rq.client().delete(*keys)


def a_request(queues: list[str]) -> None:
    """As a view does that enqueues to each of the queues."""
    connection.run_on_commit.clear()  # what the request before has left there is done
    with TestCase.captureOnCommitCallbacks(execute=True):
        for name in queues:
            jobs.enqueue(Noop(), queue=name)


def is_away() -> bool:
    return outage.outage.is_on


def all_well(proxy: Proxy, queues: list[str]) -> None:
    """A push has gone through, and the next request asks whether its queues are open."""
    proxy.set("up")
    rq.forget_clients()
    for name in queues:
        rq.set_open(name, 60)
    pushes.open_queues.__init__()  # type: ignore[misc]
    a_request(queues[:1])
    wait_until(lambda: rq.length(queues[0]))
    pushes.open_queues.__init__()  # type: ignore[misc]


@pytest.mark.parametrize("mode", ["hole", "refuse"])
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "new"])
def test_a_request_with_six_queues_waits_once(
    proxy: Proxy, queues: list[str], mode: Mode, connected: bool
) -> None:
    def before() -> None:
        all_well(proxy, queues)
        if not connected:
            wire.forget()
        proxy.set(mode)

    assert seconds(lambda: a_request(queues), before=before) < PROMISE
    assert seconds(lambda: a_request(queues)) < 0.1


def test_a_push_that_nobody_takes_is_noticed(proxy: Proxy, queues: list[str]) -> None:
    """The wire does not wait for answers: at some number of them it has to."""

    def before() -> None:
        all_well(proxy, queues)
        proxy.set("hole")

    def many() -> None:
        for _ in range(200):
            pushes.nudge()

    assert seconds(many, before=before) < PROMISE
    assert is_away()


def test_a_slow_redis_is_asked_once_whether_queues_are_open(
    proxy: Proxy, queues: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushes, "_SLOW", 0.05)

    def before() -> None:
        proxy.delay = 0.0
        all_well(proxy, queues)
        proxy.delay = 0.04

    assert seconds(lambda: a_request(queues), before=before) < PROMISE
    proxy.delay = 0.0
    assert not is_away()


def test_threads_that_begin_meanwhile_do_not_wait(proxy: Proxy, queues: list[str]) -> None:
    def before() -> None:
        all_well(proxy, queues)
        proxy.set("hole")

    def ten() -> None:
        for _ in range(10):
            thread = threading.Thread(target=pushes.nudge)
            thread.start()
            thread.join()

    assert seconds(ten, before=before) < PROMISE


def test_a_name_that_does_not_resolve_in_time_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: over.wait(5) and [])
    with redis_at("redis://redis.example:6379"):
        assert seconds(pushes.nudge, times=1) < PROMISE
        over.set()


def test_a_server_that_is_silent_is_tried_by_one_thread_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outage, "PAUSE", 0.02)
    under_way, most, tries = [0], [0], [0]

    def ping() -> None:
        tries[0] += 1
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        time.sleep(0.01)
        under_way[0] -= 1
        raise ConnectionError("away")

    monkeypatch.setattr(rq.client(), "ping", ping)
    outage.outage.begin(OSError("away"))

    def insist() -> None:
        while tries[0] < 5:
            with pytest.raises(clients.StillAway):
                outage.outage.check()

    threads = [threading.Thread(target=insist) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_when_redis_is_back_jobs_are_pushed_again(
    proxy: Proxy, queues: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "PAUSE", 0.05)
    all_well(proxy, queues)
    proxy.set("refuse")
    a_request(queues)
    assert is_away()
    proxy.set("up")

    def is_pushed() -> int:
        pushes.open_queues.__init__()  # type: ignore[misc]
        a_request(queues)
        return rq.length(queues[1])

    wait_until(is_pushed)
    assert not is_away()


def test_a_refusal_is_no_outage() -> None:
    with pytest.raises(rq.Refused):
        wire.wire().ask("INCR", "one", "too many")
    with pytest.raises(rq.Refused):
        outage.briefly(lambda: rq.client().eval("return redis.call('NO')", 0))
    assert not is_away()
    assert wire.wire().ask("PING") == b"PONG"


def test_a_connection_closed_by_redis_is_opened_again_at_once(
    proxy: Proxy, queues: list[str]
) -> None:
    all_well(proxy, queues)
    proxy.set("refuse")
    proxy.set("up")
    assert rq.is_open(queues[0])
    assert not is_away()


def test_what_a_page_asks_ends_soon(proxy: Proxy, queues: list[str]) -> None:
    job = a_job("queued")
    asked: list[Callable[[], Any]] = [
        services.dispatchers,
        lambda: explain(job),
        lambda: rq.is_first(f"test:{uuid4()}", 5),
        lambda: rq.try_shut(queues),
    ]

    def before() -> None:
        all_well(proxy, queues)
        proxy.set("hole")

    for act in asked:
        assert seconds(act, before=before) < PAGE


@pytest.mark.parametrize("page", ["overview/", "workerpage/", "queue/"])
def test_a_page_takes_hardly_longer(
    proxy: Proxy, queues: list[str], admin_client: Client, page: str
) -> None:
    def get() -> None:
        assert admin_client.get(f"/admin/jobs/{page}").status_code == 200

    get()
    usual = seconds(get)

    def before() -> None:
        all_well(proxy, queues)
        proxy.set("hole")

    assert seconds(get, before=before) < usual + PAGE


def test_a_forked_process_knows_nothing_of_its_parents_outage() -> None:
    outage.outage.begin(OSError("away"))
    child = os.fork()
    if child == 0:
        os._exit(int(outage.outage.is_on))
    assert os.waitpid(child, 0)[1] == 0
    assert is_away()


# ---- Sentinel


def sentinels(*ports: int, **described: Any) -> dict[str, Any]:
    hosts = [("127.0.0.1", port) for port in ports]
    return {"SENTINELS": hosts, "MASTER_NAME": "jobs", "DB": 0, **described}


@pytest.mark.parametrize("described", [{}, {"SOCKET_TIMEOUT": 60}], ids=["default", "patient"])
def test_silent_sentinels_do_not_hold_a_request_up(
    queues: list[str], described: dict[str, Any]
) -> None:
    with silent() as port, redis_at(**sentinels(port, port, port, **described)):

        def before() -> None:
            rq.forget_clients()
            pushes.open_queues.__init__()  # type: ignore[misc]

        assert seconds(lambda: a_request(queues), before=before) < PROMISE
        assert seconds(services.dispatchers, before=before) < PAGE
