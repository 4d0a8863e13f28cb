"""Events that were told."""

from __future__ import annotations

from typing import Any

import jobs
from jobs.engine import outbox


def told(*topics: str, **options: Any) -> list[int]:
    """The positions of the events that are now in the feed."""
    before = jobs.events.feed_head()
    for topic in topics:
        jobs.emit(topic, {"topic": topic}, **options)
    while outbox.relay_once().moved:
        pass
    return list(range(before + 1, jobs.events.feed_head() + 1))


def topics(found: list[jobs.events.Event]) -> list[str]:
    return [event.topic for event in found]
