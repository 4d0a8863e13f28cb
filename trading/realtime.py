"""The live events of a user: ``/ws/coach``, ``/internal/events`` and its stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs import realtime
from jobs.acts import Principal
from jobs.events import Event
from trading.payloads import tenant_of
from trading.permissions import USE, acting_user


def as_message(event: Event) -> dict[str, Any]:
    """Return the message for an event."""
    return {
        "type": event.topic, "eventId": event.position, "ts": event.occurred_at, "v": 1,
        "payload": event.payload,
    }  # fmt: skip


def own(who: Principal, parameters: Mapping[str, str]) -> realtime.Only:
    """Limit everybody to the events of the user for whom he acts."""
    user = acting_user(who)
    if user is None:
        raise realtime.Refused("it acts for no user, or for several")
    return realtime.Only(tenants=[tenant_of(user)])


coach = realtime.Channel(
    "trading.coach",
    topics=["coach.reflect", "import.progress", "digest.ready"],
    message=as_message,
    keep_alive=lambda position: {"type": "position", "eventId": position, "v": 1, "payload": {}},
    narrow=own,
    since=["lastEventId", "since"],
    needs=USE,
    sockets=5,
    page_size=500,
)
