"""What the app shows live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs import realtime
from jobs.acts import Principal
from jobs.events import Event


def as_coach(event: Event) -> dict[str, Any] | None:
    if event.topic == "coach.internal":
        return None
    if event.payload.get("broken"):
        raise ValueError("broken")
    return {
        "type": event.topic,
        "eventId": event.position,
        "ts": event.occurred_at,
        "v": 1,
        "payload": event.payload,
    }


def own(who: Principal, parameters: Mapping[str, str]) -> realtime.Only:
    return realtime.Only(tenants=[f"user:{who.user_id}"])


coach = realtime.Channel(
    "coach",
    topics=["coach.*", "import.progress"],
    message=as_coach,
    keep_alive=lambda position: {"type": "position", "eventId": position},
    narrow=own,
    since=["lastEventId", "after"],
    transient=["import.progress"],
    sockets=2,
    page_size=3,
)


def of_brand(who: Principal, parameters: Mapping[str, str]) -> realtime.Only:
    tenant = f"brand:{parameters['brand']}"
    if parameters["brand"] == "closed":
        raise realtime.Refused("the brand is closed")
    if parameters["brand"] == "faulty":
        raise RuntimeError("a fault of the app")
    if not who.scope.covers(tenant=tenant):
        raise realtime.NotFound("there is no such brand")
    post = parameters.get("post")
    return realtime.Only(tenants=[tenant], keys=None if post is None else [f"post:{post}"])


board = realtime.Channel(
    "board", topics=["publisher.*"], narrow=of_brand, options=["post"], needs="save_view"
)
