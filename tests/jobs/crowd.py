"""Threads that do something at the same moment, each on a database connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connections


def at_once(acts: Sequence[Callable[[], Any]], timeout: float = 60) -> list[Any]:
    """The answers of the acts, all begun together; what the first failing one raised is raised."""
    answers: dict[int, Any] = {}
    errors: list[BaseException] = []
    gate = threading.Barrier(len(acts))

    def body(number: int, act: Callable[[], Any]) -> None:
        try:
            for conn in connections.all():
                conn.ensure_connection()
            gate.wait(timeout)
            answers[number] = act()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [
        threading.Thread(target=body, args=(number, act), daemon=True)
        for number, act in enumerate(acts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    return [answers[number] for number in range(len(acts))]


def outcome(act: Callable[[], Any]) -> Callable[[], Any]:
    """The act, which answers the exception instead of raising it."""

    def guarded() -> Any:
        try:
            return act()
        except Exception as error:
            return error

    return guarded
