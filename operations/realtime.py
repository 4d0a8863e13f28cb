"""The live channel of operations, for agents' front ends and the back office."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs import realtime
from jobs.acts import Principal
from operations.permissions import QUEUES, note_seen
from operations.verbs import VIEW_OPERATION


def narrow(principal: Principal, parameters: Mapping[str, str]) -> realtime.Only:
    """Limit a client to what it may see, and note that its agent is there.

    Events say nothing of queues, so a key of some queues only is refused.
    """
    queues = principal.scope.queues
    if queues is not None and not set(queues) >= QUEUES:
        raise realtime.NotFound("this key does not see the queues of all operations")
    note_seen(principal)
    tenants = principal.scope.tenants
    if tenants is None:
        return realtime.Only()
    return realtime.Only(tenants=sorted(tenants))


def message(event: Any) -> dict[str, Any]:
    """Return an event as a message: its name, and its payload."""
    return {
        "type": event.topic.removeprefix("operations."), "eventId": event.position,
        "ts": event.occurred_at, "payload": event.payload,
    }  # fmt: skip


operations = realtime.Channel(
    "operations", topics=["operations.*"], message=message, narrow=narrow, since="lastEventId",
    transient=["operations.JOB_PROGRESS"], needs=VIEW_OPERATION,
)  # fmt: skip
