"""API keys: made, told once, rotated, revoked."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status

from jobs.api import auth, conditional, paging
from jobs.api.endpoints import In, Section
from jobs.models import ApiKey
from jobs.operate import apikeys

section = Section("api-keys")


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


@section.get("/api-keys", "apikey_list", needs="view_apikey", answer=paging.Listed[ApiKeyOut])
def apikey_list(request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]) -> Any:
    """API keys, newest first."""
    return paging.page(request, response, apikeys.visible(auth.who(request)), wanted)


@section.get("/api-keys/{int:number}", "apikey_get", needs="view_apikey", answer=ApiKeyOut)
def apikey_get(request: HttpRequest, response: HttpResponse, number: int) -> Any:
    """One API key."""
    key = apikeys.find(number, by=auth.who(request))
    return conditional.fresh(request, response, conditional.tag(key)) or _key(key)


@section.post(
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


@section.post(
    "/api-keys/{int:number}/rotate", "apikey_rotate", needs="manage_apikey",
    answer=ApiKeyToldOut, verb="apikey.rotate", secret=("secret",),
)  # fmt: skip
def apikey_rotate(request: HttpRequest, number: int, body: RotateIn) -> Any:
    """A new secret for the key."""
    overlap = timedelta(milliseconds=body.overlap_ms)
    made = apikeys.rotate(number, by=auth.who(request), reason=body.reason, overlap=overlap)
    return _key(made.key, secret=made.text)


@section.post(
    "/api-keys/{int:number}/revoke", "apikey_revoke", needs="manage_apikey", answer=ApiKeyOut,
    verb="apikey.revoke",
)  # fmt: skip
def apikey_revoke(request: HttpRequest, number: int, body: RevokeIn) -> Any:
    """The key is good for nothing any more."""
    return _key(apikeys.revoke(number, by=auth.who(request), reason=body.reason))
