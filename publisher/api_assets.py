"""The operations of assets: uploads, and what is known of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Schema

from jobs.api import Problem, paging
from publisher import verbs
from publisher.api import section, within
from publisher.models import Asset


class UploadOut(Schema):
    """Where to send the bytes of an asset, with exactly these headers."""

    id: UUID
    method: str
    url: str
    headers: dict[str, str]
    expires_at: datetime


class AssetOut(Schema):
    """An asset whose bytes are here."""

    id: UUID
    brand: str
    name: str
    kind: Literal["image", "video"]
    content_type: str
    size: int
    sha256: str
    width: int
    height: int
    seconds: float
    alt_text: str
    created_at: datetime


class AssetPage(Schema):
    """A page of assets, newest first."""

    data: list[AssetOut]
    page: paging.PageOut


@section.get("/assets", "asset_list", needs=verbs.VIEW_ASSET, answer=AssetPage)
def asset_list(request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]) -> Any:
    """List assets, newest first."""
    rows = within(request, Asset.objects.filter(is_ready=True))
    found = paging.page(request, response, rows, wanted, moment="created_at", filters={})
    return {**found, "data": [shown(row) for row in found["data"]]}


@section.get("/assets/{uuid:asset_id}", "asset_get", needs=verbs.VIEW_ASSET, answer=AssetOut)
def asset_get(request: HttpRequest, asset_id: UUID) -> Any:
    """Get an asset."""
    row = within(request, Asset.objects.filter(is_ready=True)).filter(pk=asset_id).first()
    if row is None:
        raise Problem(404, "not-found", "there is no such asset")
    return shown(row)


section.does(
    "asset.upload", "/assets/uploads", "asset_upload", answer={201: UploadOut},
    show=lambda who, target, result: result,
)  # fmt: skip
section.does(
    "asset.confirm", "/assets/{uuid:asset_id}/confirm", "asset_confirm", answer=AssetOut,
    show=lambda who, target, result: shown(Asset.objects.get(pk=target)),
)  # fmt: skip
section.does(
    "asset.describe", "/assets/{uuid:asset_id}/describe", "asset_describe", answer=AssetOut,
    show=lambda who, target, result: shown(Asset.objects.get(pk=target)),
)  # fmt: skip
section.does(
    "asset.fetch", "/assets/fetch", "asset_fetch", answer={201: AssetOut},
    show=lambda who, target, result: shown(Asset.objects.get(pk=result)),
)  # fmt: skip


def shown(row: Asset) -> dict[str, Any]:
    """Return an asset for an answer."""
    names = ("name", "kind", "content_type", "size", "sha256", "width", "height", "seconds")
    values = {name: getattr(row, name) for name in (*names, "alt_text", "created_at")}
    return {"id": row.pk, "brand": row.tenant.removeprefix("brand:"), **values}
