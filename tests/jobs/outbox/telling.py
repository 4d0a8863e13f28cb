"""Kinds that tell events, and what was told."""

from __future__ import annotations

from typing import Any

import jobs
from jobs.engine import outbox
from jobs.models import Outbox


class Telling(jobs.Payload, kind="test.telling"):
    how: str = "buffered"
    fail: bool = False


class Told(jobs.Payload, kind="test.told"):
    pass


def waiting() -> list[tuple[str, str]]:
    """Topics and states of the rows in the outbox, in their order."""
    return list(Outbox.objects.order_by("id").values_list("topic", "state"))


def published() -> list[str]:
    return [event.topic for event in jobs.events.feed()]


def relay() -> list[str]:
    """The topics of the feed, once nothing is left to be moved."""
    while outbox.relay_once().moved:
        pass
    return published()


def payloads(topic: str) -> list[dict[str, Any]]:
    relay()
    return [event.payload for event in jobs.events.feed(topics=topic)]


def told(topics: str) -> list[jobs.events.Event]:
    relay()
    return list(jobs.events.feed(topics=topics))
