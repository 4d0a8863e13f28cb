"""Kills the process that publishes a post at a point of its way, once, and lets it wait less."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from uuid import UUID

from django.apps import AppConfig

POINTS = {
    "claim": "publisher.pipeline._claim",
    "call": "publisher.connectors.client.Api._send",
    "keep": "publisher.connectors.base.Run.keep",
    "effect": "publisher.connectors.base.Run.publish",
    "wait": "publisher.pipeline._put_off",
    "finish": "publisher.pipeline._finish",
}
"""What happens there is done for one publication, which its first argument leads to."""
WAITS = {
    "publisher.connectors.base.SETTLED_AFTER": 1.0,
    "publisher.connectors.client.OPEN_FOR": 1.0,
    "publisher.connectors.instagram.POLL": 0.2,
    "publisher.connectors.tiktok.POLL": 0.2,
    "publisher.pipeline.ACCOUNT_WAIT": 0.5,
    "publisher.pipeline.DOUBT_WAIT": 1.0,
    "publisher.connectors.graph.LATER": 0.5,
    "publisher.connectors.google_business.LATER": 0.5,
}
"""Seconds, where a fleet need not wait for as long as for a provider."""


class Sabotage(AppConfig):
    name = "tests.publisher.sabotage"
    label = "publisher_sabotage"
    path = str(Path(__file__).parent)

    def ready(self) -> None:
        folder = Path(os.environ["FLEET_KILLS"])
        for target, seconds in WAITS.items():
            owner, _, name = target.rpartition(".")
            assert hasattr(resolve_name(owner), name), target
            setattr(resolve_name(owner), name, seconds)
        backoff = resolve_name("publisher.config.Backoff")
        # What the row shows, and what the engine waits at least.
        backoff.drawn = backoff.delay = lambda backoff, failures, draw=0.0: 0.3
        for point, target in POINTS.items():
            _watch(folder, point, target)


def _watch(folder: Path, point: str, target: str) -> None:
    """Kill this process where the plan of a publication says so."""
    place, _, name = target.rpartition(".")
    owner = resolve_name(place)
    original = getattr(owner, name)

    def watched(first: Any, *args: Any, **kwargs: Any) -> Any:
        row = _id_of(first)
        number = _count(folder / f"{row}.{point}")
        _die(folder, row, [point, number, "before"])
        made = original(first, *args, **kwargs)
        _die(folder, row, [point, number, "after"])
        return made

    setattr(owner, name, watched)


def _id_of(first: Any) -> UUID:
    run = getattr(first, "_run", first)  # of an API, and of an attempt
    found: UUID = run.row.pk
    return found


def _count(file: Path) -> int:
    """How often this has been done, in whatever process."""
    with file.open("ab") as counted:
        counted.write(b".")
        return counted.tell()


def _die(folder: Path, row: UUID, here: list[Any]) -> None:
    plan = folder / f"{row}.plan"
    if plan.exists() and json.loads(plan.read_text()) == here:
        (folder / f"{row}.dead").touch()
        os.kill(os.getpid(), signal.SIGKILL)
