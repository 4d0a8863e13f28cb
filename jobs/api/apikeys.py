"""API keys: created, shown once, rotated, revoked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Schema

from jobs.api import auth, conditional, paging
from jobs.api.sections import Section
from jobs.models import ApiKey
from jobs.operate import apikeys
from jobs.operate.permissions import VIEW_APIKEY

section = Section("api-keys", {"apikey": "/api-keys"})


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
    """An API key with its secret, which is returned once."""

    secret: str | None


def _key(key: ApiKey, **more: Any) -> dict[str, Any]:
    return {**{name: getattr(key, name) for name in ApiKeyOut.model_fields}, **more}


@section.get("/api-keys", "apikey_list", needs=VIEW_APIKEY, answer=paging.Listed[ApiKeyOut])
def apikey_list(request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]) -> Any:
    """API keys, newest first."""
    return paging.page(request, response, apikeys.visible(auth.who(request)), wanted)


@section.get("/api-keys/{int:number}", "apikey_get", needs=VIEW_APIKEY, answer=ApiKeyOut)
def apikey_get(request: HttpRequest, response: HttpResponse, number: int) -> Any:
    """One API key."""
    key = apikeys.find(number, by=auth.who(request))
    return conditional.fresh(request, response, conditional.tag(key)) or _key(key)


section.does(
    "apikey.create",
    "/api-keys",
    "apikey_create",
    answer={201: ApiKeyToldOut},
    secret=("secret",),
    location="/api-keys/{id}",
    show=lambda who, number, made: _key(made.key, secret=made.text),
)


section.does(
    "apikey.rotate",
    "/api-keys/{int:number}/rotate",
    "apikey_rotate",
    answer=ApiKeyToldOut,
    secret=("secret",),
    show=lambda who, number, made: _key(made.key, secret=made.text),
)


section.does(
    "apikey.revoke",
    "/api-keys/{int:number}/revoke",
    "apikey_revoke",
    answer=ApiKeyOut,
    show=lambda who, number, key: _key(key),
)
