"""The mirror."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Schema

from jobs.api import Problem
from operations.api.scope import agent
from operations.api.section import section
from operations.models import MIRROR
from operations.verbs import VIEW_MIRROR


class MirrorOut(Schema):
    """A row of the mirror."""

    key: str
    values: dict[str, Any]
    changedAt: datetime


class MirrorRows(Schema):
    """Rows of the mirror by key; ``next`` is the key to continue after."""

    data: list[MirrorOut]
    next: str | None


@section.get("/operations/mirror/{str:type}/{str:agent_key}", "mirror_list", needs=VIEW_MIRROR,
    answer=MirrorRows)  # fmt: skip
def mirror_list(
    request: HttpRequest, type: str, agent_key: str, after: str = "", limit: int = 100
) -> Any:  # fmt: skip
    """List rows of an agent's mirror by key; the type is that of their sync."""
    agent(request, agent_key)
    if type not in MIRROR:
        raise Problem(404, "not-found", "there is no such mirror", pointer="/type")
    limit = max(1, min(limit, 500))
    rows = MIRROR[type].objects.filter(agent_id=agent_key, deleted_at=None, key__gt=after)
    found = list(rows.order_by("key")[: limit + 1])
    return {
        "data": [
            {"key": row.key, "values": row.values, "changedAt": row.changed_at}
            for row in found[:limit]
        ],
        "next": found[limit - 1].key if len(found) > limit else None,
    }
