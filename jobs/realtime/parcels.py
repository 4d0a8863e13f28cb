"""Events on their way to listeners: put into words once, however many are told them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from jobs.events import Event
from jobs.realtime.questions import View

MOST = 200
"""Events of one parcel."""
LARGEST = 256 * 1024
"""Characters of one parcel, and an event more."""


class Item:
    """An event with its words."""

    __slots__ = ("event", "text")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.text = json.dumps(as_dict(event), ensure_ascii=False, separators=(",", ":"))


def as_dict(event: Event) -> dict[str, Any]:
    """The event as JSON shows it."""
    return {
        "position": event.position,
        "id": str(event.id),
        "topic": event.topic,
        "key": event.key,
        "tenant": event.tenant,
        "audience": event.audience,
        "payload": event.payload,
        "occurred_at": event.occurred_at.isoformat(),
    }


class Parcel:
    """Events in their order, perhaps none, and the position at which all before are told."""

    def __init__(self, items: Sequence[Item], position: int) -> None:
        self.items, self.position = items, position
        self.size = sum(len(item.text) for item in items) + 100

    @cached_property
    def message(self) -> str:
        """As a message of a WebSocket."""
        inside = ",".join(item.text for item in self.items)
        return f'{{"type":"events","position":{self.position},"events":[{inside}]}}'

    @cached_property
    def lines(self) -> bytes:
        """As server-sent events; the last line moves the position past what was not shown."""
        told = "".join(
            f"id: {item.event.position}\nevent: {item.event.topic}\ndata: {item.text}\n\n"
            for item in self.items
        )
        if not self.items or self.items[-1].event.position < self.position:
            told += f": on\nid: {self.position}\n\n"
        return told.encode()


def parcels(items: Iterable[Item], view: View, position: int) -> Iterator[Parcel]:
    """What the view shows of the items, in parcels; the last one is at ``position``.

    Where it shows nothing, there is no parcel.
    """
    chosen: list[Item] = []
    size = 0
    for item in items:
        if not view.shows(item.event):
            continue
        if chosen and (len(chosen) >= MOST or size >= LARGEST):
            yield Parcel(chosen, chosen[-1].event.position)
            chosen, size = [], 0
        chosen.append(item)
        size += len(item.text)
    if chosen:
        yield Parcel(chosen, position)
