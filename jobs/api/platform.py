"""The platform itself: who I am, kinds, statistics, audit, API keys, and whether it is up."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.db import Error
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import ConfigDict

from jobs import registry
from jobs.api import auth, conditional, paging, sight
from jobs.api.endpoints import In, Section
from jobs.api.problem import Problem
from jobs.engine import sql
from jobs.errors import UnknownTarget
from jobs.models import ApiKey, Audit
from jobs.operate import apikeys, stats

me = Section("me")
kinds = Section("kinds")
numbers = Section("stats")
acts = Section("audit")
keys = Section("api-keys")
health = Section("health")


class MeOut(Schema):
    """Who asks, what he may, and how much he sees; null is everything."""

    name: str
    via: str
    permissions: list[str]
    tenants: list[str] | None
    queues: list[str] | None
    is_staff: bool


@me.get("/me", "me", needs="", answer=MeOut)
def who_am_i(request: HttpRequest) -> Any:
    """Who I am and what I may."""
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
    replayable: bool
    atomic: bool
    on_lost: str
    sensitive: list[str]
    payload_schema: dict[str, Any] | None = None


def _kind(handler: registry.Handler, *, schema: bool = False) -> dict[str, Any]:
    told: dict[str, Any] = {
        name: getattr(handler, name)
        for name in ("kind", "queue", "max_attempts", "replayable", "atomic", "on_lost")
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


@kinds.get("/kinds", "kind_list", needs="view_job", answer=list[KindOut])
def kind_list(request: HttpRequest) -> Any:
    """The kinds that have a handler."""
    who = auth.who(request)
    return [_kind(one) for one in registry.handlers() if who.scope.covers(None, one.queue)]


@kinds.get("/kinds/{name}", "kind_get", needs="view_job", answer=KindOut)
def kind_get(request: HttpRequest, name: str) -> Any:
    """One kind, with the JSON Schema of its payload."""
    handler = registry.get(name)
    if not auth.who(request).scope.covers(None, handler.queue):
        raise UnknownTarget("kind", name)
    return _kind(handler, schema=True)


class SeriesIn(Schema):
    """Of what, from when, in which steps."""

    model_config = ConfigDict(extra="forbid")
    since: datetime
    until: datetime | None = None
    step_ms: int = Field(60_000, ge=60_000, le=86_400_000)
    by: Literal["kind", "queue"] | None = None
    kind: str | None = Field(None, max_length=120)
    queue: str | None = Field(None, max_length=120)


class PointOut(Schema):
    """What ended within a step."""

    at: datetime
    counts: dict[str, int]
    dead_letters: int
    stalls: int
    throughput: float
    failure_rate: float | None
    p50_ms: float | None
    p95_ms: float | None


class SeriesOut(Schema):
    """Points by name; the series of everything has the empty one."""

    series: dict[str, list[PointOut]]


@numbers.get("/stats/throughput", "stats_throughput", needs="view_job", answer=SeriesOut)
def stats_throughput(request: HttpRequest, wanted: Query[SeriesIn]) -> Any:
    """How attempts ended over time; the numbers of all tenants, for who sees them all."""
    who = auth.who(request)
    if who.scope.tenants is not None:
        raise Problem(403, "needs-all-tenants", "these numbers are those of all tenants")
    if who.scope.queues is not None and wanted.queue not in who.scope.queues:
        raise UnknownTarget("queue", wanted.queue or "")
    found = stats.series(
        wanted.since,
        wanted.until,
        step=timedelta(milliseconds=wanted.step_ms),
        by=wanted.by,
        kind=wanted.kind,
        queue=wanted.queue,
    )
    return {"series": {name: [_point(one) for one in points] for name, points in found.items()}}


def _point(point: stats.Point) -> dict[str, Any]:
    p50, p95 = point.p50, point.p95
    return {
        "at": point.at,
        "counts": dict(point.counts),
        "dead_letters": point.letters,
        "stalls": point.stalls,
        "throughput": point.throughput,
        "failure_rate": point.failure_rate,
        "p50_ms": None if p50 is None else p50 * 1000,
        "p95_ms": None if p95 is None else p95 * 1000,
    }


class ActOut(Schema):
    """What somebody did, was denied, or was refused."""

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


@acts.get("/audit", "audit_list", needs="view_audit", answer=paging.Listed[ActOut])
def audit_list(request: HttpRequest, response: HttpResponse, wanted: Query[ActsIn]) -> Any:
    """Who did what, newest first."""
    names = ("actor", "action", "target_kind", "target_id", "outcome")
    filters = {name: value for name in names if (value := getattr(wanted, name)) is not None}
    rows = sight.within(Audit.objects.using(sql.alias()), auth.who(request)).filter(**filters)
    return paging.page(request, response, rows, wanted, moment="at", filters=filters)


class ApiKeyOut(Schema):
    """An API key, without its secret."""

    id: int
    name: str
    prefix: str
    permissions: list[str]
    tenants: list[str] | None
    queues: list[str] | None
    addresses: list[str]
    is_staff: bool
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    rotated_at: datetime | None
    previous_until: datetime | None
    revoked_at: datetime | None
    revoked_by: str


class ApiKeyToldOut(ApiKeyOut):
    """An API key, and what its program has to show; told once."""

    secret: str | None


class ApiKeyIn(In):
    """A key; tenants and queues are yours where none are named."""

    name: str = Field(min_length=1, max_length=80)
    permissions: list[str] = Field(min_length=1, max_length=100)
    tenants: list[str] | None = Field(None, max_length=100)
    queues: list[str] | None = Field(None, max_length=100)
    addresses: list[str] = Field(default_factory=list, max_length=100)
    expires_at: datetime | None = None
    is_staff: bool = False
    reason: str = Field(min_length=1, max_length=500)


class RotateIn(In):
    """How long the old secret is good beside the new one."""

    overlap_ms: int = Field(86_400_000, ge=0, le=30 * 86_400_000)
    reason: str = Field(min_length=1, max_length=500)


class RevokeIn(In):
    """Why."""

    reason: str = Field(min_length=1, max_length=500)


def _key(key: ApiKey, **more: Any) -> dict[str, Any]:
    return {**{name: getattr(key, name) for name in ApiKeyOut.model_fields}, **more}


@keys.get("/api-keys", "apikey_list", needs="view_apikey", answer=paging.Listed[ApiKeyOut])
def apikey_list(request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]) -> Any:
    """API keys, newest first."""
    return paging.page(request, response, apikeys.visible(auth.who(request)), wanted)


@keys.get("/api-keys/{int:number}", "apikey_get", needs="view_apikey", answer=ApiKeyOut)
def apikey_get(request: HttpRequest, response: HttpResponse, number: int) -> Any:
    """One API key."""
    key = apikeys.find(number, by=auth.who(request))
    return conditional.fresh(request, response, conditional.tag(key)) or _key(key)


@keys.post(
    "/api-keys", "apikey_create", needs="manage_apikey", answer={201: ApiKeyToldOut},
    verb="apikey.create", secret=("secret",),
)  # fmt: skip
def apikey_create(request: HttpRequest, body: ApiKeyIn) -> Any:
    """A new key; its secret is told in this answer only, and not in a repeated one."""
    who = auth.who(request)
    given = body.model_dump()
    for name in ("tenants", "queues"):
        own = getattr(who.scope, name)
        if given[name] is None and own is not None:
            given[name] = sorted(own)
    made = apikeys.create(by=who, **given)
    return Status(201, _key(made.key, secret=made.text))


@keys.post(
    "/api-keys/{int:number}/rotate", "apikey_rotate", needs="manage_apikey",
    answer=ApiKeyToldOut, verb="apikey.rotate", secret=("secret",),
)  # fmt: skip
def apikey_rotate(request: HttpRequest, number: int, body: RotateIn) -> Any:
    """A new secret for the key."""
    overlap = timedelta(milliseconds=body.overlap_ms)
    made = apikeys.rotate(number, by=auth.who(request), reason=body.reason, overlap=overlap)
    return _key(made.key, secret=made.text)


@keys.post(
    "/api-keys/{int:number}/revoke", "apikey_revoke", needs="manage_apikey", answer=ApiKeyOut,
    verb="apikey.revoke",
)  # fmt: skip
def apikey_revoke(request: HttpRequest, number: int, body: RevokeIn) -> Any:
    """The key is good for nothing any more."""
    return _key(apikeys.revoke(number, by=auth.who(request), reason=body.reason))


class HealthOut(Schema):
    """Whether it is well."""

    status: Literal["ok", "unavailable"]


@health.get("/health/live", "health_live", needs="", answer=HealthOut, is_open=True)
def health_live(request: HttpRequest) -> Any:
    """The process answers."""
    return {"status": "ok"}


@health.get(
    "/health/ready", "health_ready", needs="", answer={200: HealthOut, 503: HealthOut},
    is_open=True,
)  # fmt: skip
def health_ready(request: HttpRequest) -> Any:
    """The database of the jobs answers."""
    try:
        sql.rows("SELECT 1 FROM jobs_queue LIMIT 1")
    except Error:
        return Status(503, {"status": "unavailable"})
    return {"status": "ok"}
