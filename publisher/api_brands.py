"""The operations of brands: their accounts, members, posting times and blackout windows."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query, Schema

from jobs.api import Problem, paging
from publisher import times, verbs, windows
from publisher.api import section, within
from publisher.api_status import PublisherAccountOut, account_shown
from publisher.models import Brand


class BrandWindowOut(Schema):
    """A blackout window of a brand."""

    id: int
    start: str
    end: str
    timezone: str
    days: list[int]
    """Days on which it starts, 0 is Sunday; none is every day."""


class BrandMemberOut(Schema):
    """A member of a brand."""

    user: str
    role: Literal["viewer", "editor", "approver", "manager"]


class BrandOut(Schema):
    """A brand."""

    id: UUID
    slug: str
    name: str
    time_zone: str
    posting_times: str
    """Such as ``09:00, mon-fri 18:30``."""
    windows: list[BrandWindowOut]
    members: list[BrandMemberOut]
    created_at: datetime


class BrandPage(Schema):
    """A page of brands, newest first."""

    data: list[BrandOut]
    page: paging.PageOut


@section.get("/brands", "brand_list", needs=verbs.VIEW_BRAND, answer=BrandPage)
def brand_list(request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]) -> Any:
    """List brands, newest first."""
    found = paging.page(request, response, _brands(request), wanted)
    return {**found, "data": [shown(row) for row in found["data"]]}


@section.get("/brands/{uuid:brand_id}", "brand_get", needs=verbs.VIEW_BRAND, answer=BrandOut)
def brand_get(request: HttpRequest, brand_id: UUID) -> Any:
    """Get a brand."""
    row = _brands(request).filter(pk=brand_id).first()
    if row is None:
        raise Problem(404, "not-found", "there is no such brand")
    return shown(row)


section.does(
    "brand.create", "/brands", "brand_create", answer={201: BrandOut},
    show=lambda who, target, result: shown(result),
)  # fmt: skip
section.does(
    "brand.connect", "/brands/{uuid:brand_id}/connect", "brand_connect",
    answer={201: PublisherAccountOut}, show=lambda who, target, result: account_shown(result),
)  # fmt: skip
section.does(
    "consent.connect", "/consents/{uuid:consent_id}/connect", "consent_connect",
    answer=PublisherAccountOut, show=lambda who, target, result: account_shown(result),
)  # fmt: skip
for _verb in ("set_times", "add_window", "remove_window", "set_member", "remove_member"):
    section.does(
        f"brand.{_verb}", f"/brands/{{uuid:brand_id}}/{_verb.replace('_', '-')}", f"brand_{_verb}",
        answer=BrandOut, show=lambda who, target, result: shown(Brand.objects.get(pk=target)),
    )  # fmt: skip


def _brands(request: HttpRequest) -> QuerySet[Brand]:
    return within(request, Brand.objects.all())


def shown(row: Brand) -> dict[str, Any]:
    """Return a brand for an answer."""
    members = row.members.select_related("user").order_by("id")
    return {
        "id": row.pk, "slug": row.slug, "name": row.name, "time_zone": row.time_zone,
        "posting_times": times.words(row), "created_at": row.created_at,
        "windows": [{"id": one.pk, **windows.shown(one)} for one in windows.of_brand(row)],
        "members": [{"user": one.user.get_username(), "role": one.role} for one in members],
    }  # fmt: skip
