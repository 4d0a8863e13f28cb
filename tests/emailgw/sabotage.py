"""Kills the process it is installed in, before or after a function, once per email and mark."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.apps import AppConfig


class Sabotage(AppConfig):
    name = "tests.emailgw.sabotage"
    label = "sabotage"
    path = str(Path(__file__).parent)

    def ready(self) -> None:
        for point in filter(None, os.environ.get("FLEET_CRASH", "").split(",")):
            crash_at(*point.split("|"))


def crash_at(target: str, when: str, mark: str) -> None:
    """The first process that calls the function dies of SIGKILL then, and no other after it."""
    *path, name = target.split(".")
    module: Any = importlib.import_module(".".join(path))
    original: Callable[..., Any] = getattr(module, name)

    def sabotaged(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            _die_once(mark)
        value = original(*args, **kwargs)
        if when == "after":
            _die_once(mark)
        return value

    setattr(module, name, sabotaged)


def _die_once(mark: str) -> None:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
