"""Kills, delays or holds the process it is installed in, at a function, once for each mark."""

from __future__ import annotations

import importlib
import os
import signal
import time
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


def crash_at(target: str, when: str, mark: str, seconds: str = "") -> None:
    """Let the first process that calls the function die of SIGKILL then, and no other after it.

    With ``seconds``, it does nothing for so long instead. With "hold" its call waits until
    somebody creates ``<mark>.go``; when it has ended, there is ``<mark>.ended``.
    """
    *path, name = target.split(".")
    classes = [each for each in path if each.istitle()]
    place: Any = importlib.import_module(".".join(path[: len(path) - len(classes)]))
    for each in classes:
        place = getattr(place, each)
    original: Callable[..., Any] = getattr(place, name)

    def sabotaged(*args: Any, **kwargs: Any) -> Any:
        if when == "hold" and _is_first(mark):
            return _held(Path(mark), lambda: original(*args, **kwargs))
        if when == "before":
            _fail_once(mark, seconds)
        value = original(*args, **kwargs)
        if when == "after":
            _fail_once(mark, seconds)
        return value

    setattr(place, name, sabotaged)


def _is_first(mark: str) -> bool:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _fail_once(mark: str, seconds: str) -> None:
    if not _is_first(mark):
        return
    if not seconds:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(float(seconds))


def _held(mark: Path, call: Callable[[], Any]) -> Any:
    while not mark.with_suffix(".go").exists():
        time.sleep(0.02)
    try:
        return call()
    finally:
        mark.with_suffix(".ended").touch()
