"""Limits that people set: how many of a queue or kind may run at once, and how often one starts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Field, Schema

from jobs.api import auth
from jobs.api.sections import Section
from jobs.operate import sight
from jobs.operate.permissions import VIEW_QUEUE

section = Section("limits", {"limit": "/limits"})


class LimitOut(Schema):
    """How many may run at once, and how often one may start; null is no limit."""

    scope: str
    at_once: int | None
    per_second: float | None
    burst: float
    tokens: float
    closed_until: datetime | None
    rated_at: datetime | None = Field(description="when its rate held jobs back last")
    rated_since: datetime | None = Field(description="since when, without a minute in between")
    is_declared: bool
    override_until: datetime | None
    set_by: str
    set_reason: str


@section.get("/limits", "limit_list", needs=VIEW_QUEUE, answer=list[LimitOut])
def limit_list(request: HttpRequest) -> Any:
    """Limits of queues and kinds, and closed keys; empty for callers who see only some tenants."""
    return list(sight.limits(auth.who(request))[:1000])


section.does(
    "limit.set",
    "/limits",
    "limit_set",
    answer=LimitOut,
    show=lambda who, scope, found: found,
)


section.does(
    "limit.end_override",
    "/limits/end-override",
    "limit_end_override",
    answer={204: None},
)


section.does(
    "limit.reopen",
    "/limits/reopen",
    "limit_reopen",
    answer={204: None},
)


section.does(
    "limit.remove",
    "/limits/remove",
    "limit_remove",
    answer={204: None},
)


section.does(
    "limit.set",
    "/queues/{name}/limit",
    "queue_limit",
    answer=LimitOut,
    target="queue:{}",
    show=lambda who, scope, found: found,
    summary="Limit a queue, overriding what code declares",
)


section.does(
    "limit.set",
    "/queues/{name}/override",
    "queue_override",
    answer=LimitOut,
    target="queue:{}",
    required=("until",),
    show=lambda who, scope, found: found,
    summary="Limit a queue until then",
)


section.does(
    "limit.end_override",
    "/queues/{name}/override/end",
    "queue_end_override",
    answer={204: None},
    target="queue:{}",
    summary="End the override of a queue; what held before holds again",
)
