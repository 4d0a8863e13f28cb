"""Events on their way to listeners: serialized once, however many listen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from jobs.events import Event
from jobs.realtime.channels import Channel, as_dict
from jobs.realtime.questions import View

MOST = 200
"""Events of one parcel."""
LARGEST = 256 * 1024
"""Characters of one parcel, and an event more."""


class Item:
    """An event with its words."""

    __slots__ = ("_texts", "event", "text")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.text = json.dumps(as_dict(event), ensure_ascii=False, separators=(",", ":"))
        self._texts: dict[Channel, str | None] | None = None

    def text_for(self, channel: Channel | None) -> str | None:
        """Return the channel's message for the event; None if it is left out."""
        if channel is None:
            return self.text
        if self._texts is None:
            self._texts = {}
        if channel not in self._texts:
            self._texts[channel] = channel.text(self.event)
        return self._texts[channel]


class Parcel:
    """Events in their order, perhaps none, and the position up to which all are sent."""

    def __init__(
        self, items: Sequence[Item], position: int, channel: Channel | None = None
    ) -> None:
        self.items, self.position, self._channel = items, position, channel
        self._texts = [item.text_for(channel) or "" for item in items]
        self.size = sum(map(len, self._texts)) + 100

    @cached_property
    def message(self) -> str:
        """As a message of ``/ws/events``."""
        inside = ",".join(self._texts)
        return f'{{"type":"events","position":{self.position},"events":[{inside}]}}'

    @cached_property
    def messages(self) -> Sequence[str]:
        """As messages of a WebSocket: an app's channel has one for each event."""
        if self._channel is None:
            return [self.message]
        if self.items:
            return self._texts
        rest = self._channel.rest(self.position)
        return [] if rest is None else [rest]

    @cached_property
    def lines(self) -> bytes:
        """As server-sent events; the last line moves the position past what was not shown."""
        told = "".join(
            f"id: {item.event.position}\nevent: {item.event.topic}\ndata: {text}\n\n"
            for item, text in zip(self.items, self._texts, strict=True)
        )
        if not self.items or self.items[-1].event.position < self.position:
            told += f": on\nid: {self.position}\n\n"
        return told.encode()


def parcels(
    items: Iterable[Item], view: View, position: int, *, is_live: bool = True
) -> Iterator[Parcel]:
    """What the view shows of the items, in parcels; the last one is at ``position``.

    Where it shows nothing, there is no parcel. ``is_live`` is false in a replay.
    """
    chosen: list[Item] = []
    size = 0
    for item in items:
        if not view.shows(item.event, is_live=is_live):
            continue
        if (text := item.text_for(view.channel)) is None:
            continue
        if chosen and (len(chosen) >= MOST or size >= LARGEST):
            yield Parcel(chosen, chosen[-1].event.position, view.channel)
            chosen, size = [], 0
        chosen.append(item)
        size += len(text)
    if chosen:
        yield Parcel(chosen, position, view.channel)
