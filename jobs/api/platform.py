"""The platform itself: who I am, kinds, the audit, and whether it is up."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db import Error
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status

from jobs import registry
from jobs.api import auth, paging
from jobs.api.sections import Section
from jobs.engine import sql
from jobs.errors import UnknownTarget
from jobs.models import Audit
from jobs.operate import sight
from jobs.operate.permissions import VIEW_AUDIT, VIEW_JOB

me = Section("me")
kinds = Section("kinds")
acts = Section("audit")
health = Section("health")


class MeOut(Schema):
    """The caller, with permissions and scope; null is everything."""

    name: str
    via: str
    permissions: list[str]
    tenants: list[str] | None
    queues: list[str] | None
    is_staff: bool


@me.get("/me", "me", needs="", answer=MeOut)
def who_am_i(request: HttpRequest) -> Any:
    """Get the caller's permissions and scope."""
    who = auth.who(request)
    tenants, queues = who.scope.tenants, who.scope.queues
    return {
        "name": who.name,
        "via": who.via,
        "permissions": sorted(who.permissions),
        "tenants": None if tenants is None else sorted(tenants),
        "queues": None if queues is None else sorted(queues),
        "is_staff": who.is_staff,
    }


class KindOut(Schema):
    """A kind of job and its rules."""

    kind: str
    aliases: list[str]
    version: int
    queue: str
    max_attempts: int
    timeout_ms: int
    expires_ms: int | None
    expires_unless: Literal["started", "succeeded"]
    replayable: bool
    internal: bool
    atomic: bool
    on_lost: str
    sensitive: list[str]
    payload_schema: dict[str, Any] | None = None


def _kind(handler: registry.Handler, *, schema: bool = False) -> dict[str, Any]:
    told: dict[str, Any] = {
        name: getattr(handler, name)
        for name in (
            *("kind", "queue", "max_attempts", "expires_unless"),
            *("replayable", "internal", "atomic", "on_lost"),
        )
    }
    payload = handler.payload
    told |= {
        "aliases": list(payload.aliases),
        "version": payload.version,
        "timeout_ms": round(handler.timeout * 1000),
        "expires_ms": None if handler.expires is None else round(handler.expires * 1000),
        "sensitive": sorted(payload.__sensitive__),
    }
    if schema:
        told["payload_schema"] = payload.model_json_schema()
    return told


@kinds.get("/kinds", "kind_list", needs=VIEW_JOB, answer=list[KindOut])
def kind_list(request: HttpRequest) -> Any:
    """The kinds that can be enqueued: those with a handler, except internal ones."""
    who = auth.who(request)
    return [
        _kind(one)
        for one in registry.handlers()
        if not one.internal and who.scope.covers(None, one.queue)
    ]


@kinds.get("/kinds/{name}", "kind_get", needs=VIEW_JOB, answer=KindOut)
def kind_get(request: HttpRequest, name: str) -> Any:
    """One kind, with the JSON Schema of its payload."""
    handler = registry.get(name)
    if not auth.who(request).scope.covers(None, handler.queue):
        raise UnknownTarget("kind", name)
    return _kind(handler, schema=True)


class ActOut(Schema):
    """An entry of the audit log: an action that was done, denied or refused."""

    id: UUID
    at: datetime
    actor: str
    via: str
    action: str
    target_kind: str
    target_id: str
    tenant: str
    queue: str
    count: int
    reason: str
    request_id: str
    outcome: str
    detail: dict[str, Any]


class ActsIn(paging.PageIn):
    """Which acts."""

    actor: str | None = Field(None, max_length=200)
    action: str | None = Field(None, max_length=120)
    target_kind: str | None = Field(None, max_length=60)
    target_id: str | None = Field(None, max_length=200)
    outcome: Literal["done", "denied", "refused"] | None = None


@acts.get("/audit", "audit_list", needs=VIEW_AUDIT, answer=paging.Listed[ActOut])
def audit_list(request: HttpRequest, response: HttpResponse, wanted: Query[ActsIn]) -> Any:
    """Entries of the audit log, newest first."""
    names = ("actor", "action", "target_kind", "target_id", "outcome")
    filters = {name: value for name in names if (value := getattr(wanted, name)) is not None}
    rows = sight.within(Audit.objects.using(sql.alias()), auth.who(request)).filter(**filters)
    return paging.page(request, response, rows, wanted, moment="at", filters=filters)


class HealthOut(Schema):
    """Whether it is well."""

    status: Literal["ok", "unavailable"]


@health.get("/health/live", "health_live", needs="", answer=HealthOut, is_open=True)
def health_live(request: HttpRequest) -> Any:
    """Liveness: the process is running."""
    return {"status": "ok"}


@health.get(
    "/health/ready", "health_ready", needs="", answer={200: HealthOut, 503: HealthOut},
    is_open=True,
)  # fmt: skip
def health_ready(request: HttpRequest) -> Any:
    """Readiness: the jobs database is reachable."""
    try:
        sql.rows("SELECT 1 FROM jobs_queue LIMIT 1")
    except Error:
        return Status(503, {"status": "unavailable"})
    return {"status": "ok"}
