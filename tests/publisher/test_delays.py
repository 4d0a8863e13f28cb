"""What one brand's posts wait for delays no other brand: seen on real workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from publisher.models import Channel
from tests.publisher.press import Post, Press
from tests.publisher.test_fleet import SIZES, most_at_once, press
from tests.wait import wait_until

__all__ = ["press"]  # a fixture
pytestmark = pytest.mark.slow
SOON = 30
"""Seconds in which a post on each channel has appeared, on a slow machine."""


def others_appear(press: Press, first: int) -> list[Post]:
    """Hand in a post of another brand on every channel, and wait until all have appeared."""
    others = press.hand_in(Channel.values, sizes=SIZES, first=first)
    press.start(processes=2, concurrency=2)
    wait_until(lambda: not press.unfinished(f"brand:b{first}"), SOON, 0.1, "the others appeared")
    assert set(press.appeared(others).values()) == {1}
    return others


def test_posts_in_a_blackout_delay_no_other(press: Press) -> None:
    """More posts than the dispatcher looks at once are due before the others, and closed."""
    closed = press.hand_in([*Channel.values] * 4, closed=[0], sizes=SIZES)
    assert len(closed) >= 25
    others_appear(press, first=len(closed))
    assert press.unfinished("brand:b0") == len(closed)
    assert not any(token.startswith("token-0-0-") for token in press.standin.most)
    press.reopen()
    press.await_end(120)
    assert set(press.ends().values()) == {"completed"}
    assert most_at_once(press.standin) == 1


def test_a_site_that_says_nothing_delays_no_other(press: Press) -> None:
    broken = press.hand_in(["wordpress_blog"] * 25)
    press.standin.script = lambda request: "stall" if "token-0-0-" in request.token else ""
    others_appear(press, first=len(broken))
    assert press.unfinished("brand:b0") == len(broken)
    assert press.standin.most["token-0-0-wordpress_blog"] == 1
    text = redis_text(press) + "".join(
        log.read_text(errors="replace") for log in press.fleet.folder.glob("*.log")
    )
    assert "publisher" in text  # there is something to read
    assert "token-0" not in text and "Fresh bread" not in text


def redis_text(press: Press) -> str:
    """Return all keys and values in Redis."""
    found: Any = press.fleet.redis
    readers: dict[bytes, Callable[[Any], Any]] = {
        b"string": found.get, b"hash": found.hgetall, b"set": found.smembers,
        b"list": lambda key: found.lrange(key, 0, -1),
        b"zset": lambda key: found.zrange(key, 0, -1), b"stream": found.xrange,
    }  # fmt: skip
    return "".join(f"{key} {readers[found.type(key)](key)}" for key in found.scan_iter())
