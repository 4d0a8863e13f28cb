"""The bell that Redis rings when the feed has grown, and what is heard when it cannot."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from jobs.engine import rq
from tests.redis import Proxy, redis_at
from tests.wait import wait_until


@pytest.fixture
def network() -> Iterator[Proxy]:
    with contextlib.closing(Proxy()) as proxy, redis_at(proxy.url):
        yield proxy


@contextlib.contextmanager
def hearing() -> Iterator[list[bool]]:
    over, heard = threading.Event(), list[bool]()
    thread = threading.Thread(target=rq.hear_rings, args=(over, heard.append))
    thread.start()
    try:
        yield heard
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_a_connection_on_which_nothing_comes_any_more_is_given_up(network: Proxy) -> None:
    with hearing() as heard:
        wait_until(lambda: heard == [True])
        # Nothing rings, and Redis answers pings.
        since = time.monotonic()
        wait_until(lambda: time.monotonic() - since > 2 + rq._LISTENS_FOR)
        assert heard == [True]
        network.set("hole")
        wait_until(lambda: heard[-1] is False)
        network.set("up")
        wait_until(lambda: heard[-1] is True)


def test_a_ring_is_heard(network: Proxy) -> None:
    with hearing() as heard:
        wait_until(lambda: heard == [True])
        rq.client().publish(rq.FEED, 1)
        wait_until(lambda: heard == [True, True])
