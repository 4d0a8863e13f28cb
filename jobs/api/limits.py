"""Limits that people set: how many of a queue or kind may run at once, and how often one starts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Field, Schema, Status

from jobs.api import auth
from jobs.api.endpoints import In, Section
from jobs.api.schemas import WhyIn
from jobs.engine import sql
from jobs.models import Limiter
from jobs.operate import queues

section = Section("limits")
_EDIT: dict[str, Any] = {"needs": "edit_queue"}


class LimitOut(Schema):
    """How many may run at once, and how often one may start; null is no limit."""

    scope: str
    at_once: int | None
    per_second: float | None
    burst: float
    tokens: float
    closed_until: datetime | None
    is_declared: bool
    override_until: datetime | None
    set_by: str
    set_reason: str


class NumbersIn(In):
    """The limit; without both ``at_once`` and ``rate`` there is none."""

    at_once: int | None = Field(None, ge=1, le=1_000_000)
    rate: str | None = Field(None, max_length=40)
    burst: float | None = Field(None, gt=0, le=1e9)
    reason: str = Field(min_length=1, max_length=500)


class OverrideIn(NumbersIn):
    """A limit that holds until then; afterwards what held before."""

    until: datetime


class LimitIn(NumbersIn):
    """``queue:…`` or ``kind:…``; with ``until`` it is an override."""

    scope: str = Field(min_length=3, max_length=300)
    until: datetime | None = None


class LimitScopeIn(WhyIn):
    """Which scope."""

    scope: str = Field(min_length=3, max_length=300)


@section.get("/limits", "limit_list", needs="view_queue", answer=list[LimitOut])
def limit_list(request: HttpRequest) -> Any:
    """Limits of queues and kinds, for who sees everything."""
    if not auth.who(request).scope.is_everything:
        return []
    rows = Limiter.objects.using(sql.alias()).exclude(scope__startswith="key:")
    return list(rows.order_by("scope")[:1000])


@section.post("/limits", "limit_set", answer=LimitOut, verb="limit.set", **_EDIT)
def limit_set(request: HttpRequest, body: LimitIn) -> Any:
    """The queue or kind has this limit, whatever code says."""
    return queues.set_limit(by=auth.who(request), **body.model_dump())


@section.post(
    "/limits/end-override", "limit_end_override", answer={204: None}, verb="limit.end_override",
    **_EDIT,
)  # fmt: skip
def limit_end_override(request: HttpRequest, body: LimitScopeIn) -> Any:
    """What held before the override holds again."""
    queues.end_override(body.scope, by=auth.who(request), reason=body.reason)
    return Status(204, None)


@section.post(
    "/limits/remove", "limit_remove", answer={204: None}, verb="limit.remove", **_EDIT
)  # fmt: skip
def limit_remove(request: HttpRequest, body: LimitScopeIn) -> Any:
    """The limit is what code declares, or none."""
    queues.remove_limit(body.scope, by=auth.who(request), reason=body.reason)
    return Status(204, None)


@section.post(
    "/queues/{name}/limit", "queue_limit", answer=LimitOut, verb="limit.set", **_EDIT
)  # fmt: skip
def queue_limit(request: HttpRequest, name: str, body: NumbersIn) -> Any:
    """The queue has this limit, whatever code says."""
    return queues.set_limit(f"queue:{name}", by=auth.who(request), **body.model_dump())


@section.post(
    "/queues/{name}/override", "queue_override", answer=LimitOut, verb="limit.set", **_EDIT
)  # fmt: skip
def queue_override(request: HttpRequest, name: str, body: OverrideIn) -> Any:
    """The queue has this limit until then."""
    return queues.set_limit(f"queue:{name}", by=auth.who(request), **body.model_dump())


@section.post(
    "/queues/{name}/override/end", "queue_end_override", answer={204: None},
    verb="limit.end_override", **_EDIT,
)  # fmt: skip
def queue_end_override(request: HttpRequest, name: str, body: WhyIn) -> Any:
    """What held for the queue before the override holds again."""
    queues.end_override(f"queue:{name}", by=auth.who(request), reason=body.reason)
    return Status(204, None)
