import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 30.0
"""Seconds after which nobody believes any more that it will come true, on any machine."""


def wait_until(
    condition: Callable[[], Found],
    timeout: float = PATIENCE,
    interval: float = 0.02,
    message: str = "the condition did not come true",
) -> Found:
    """The first true value of ``condition``; an AssertionError after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{message} within {timeout} s")
        time.sleep(interval)
