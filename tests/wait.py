import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_until(
    condition: Callable[[], Found],
    timeout: float = 30,
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
