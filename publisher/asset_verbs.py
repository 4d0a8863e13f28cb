"""What people do with assets, for the admin, the API and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

import jobs
from jobs.acts import principal
from jobs.verbs import By, Target, acting, verb
from publisher import access, assets, config
from publisher.errors import Fault, Refused
from publisher.inspection import INVALID, Inspected
from publisher.models import Asset, Brand
from publisher.verbs import ADD_ASSET

ASSET = Target("asset", UUID, "assets", rows=Asset.objects.all, tenant="tenant", queue=config.QUEUE)

Slug = Annotated[str, Field(min_length=1, max_length=60, description="slug of the brand")]
Name = Annotated[str, Field(min_length=1, max_length=150, description="name of the file")]
Alt = Annotated[str, Field(max_length=1000, description="says what it shows to those who cannot")]


def _brand(slug: str, by: By) -> Brand:
    brand = Brand.objects.filter(slug=slug).first()
    if brand is None:
        raise Refused(INVALID, Fault("brand", "there is no such brand"))
    access.require(by, brand.pk, "editor")
    return brand


@verb("asset.upload", on=ASSET, permission=ADD_ASSET, new=True)
def upload(
    brand: Slug,
    name: Name,
    size: Annotated[int, Field(ge=1, le=assets.LARGEST, description="bytes")],
    content_type: Annotated[str, Field(max_length=50, description="such as image/jpeg")],
    *,
    by: By,
    alt_text: Alt = "",
) -> dict[str, Any]:
    """Announce an asset; its bytes are sent to the address that is returned, then confirmed."""
    place = jobs.acts.Place(f"brand:{brand}", config.QUEUE)
    with acting(upload, by=by, place=place) as act:
        made = assets.announce(
            _brand(brand, by), name, size, content_type, by=str(by), alt_text=alt_text
        )
        act.concerns(made.pk)
    to = assets.upload_of(made)
    return {
        "id": str(made.pk), "method": to.method, "url": to.url, "headers": dict(to.headers),
        "expires_at": to.expires_at.isoformat(),
    }  # fmt: skip


@verb("asset.confirm", on=ASSET, permission=ADD_ASSET)
def confirm(asset_id: UUID, *, by: By) -> None:
    """Look at the bytes that were uploaded; what channels would not take is deleted."""
    with _inspected(asset_id, by) as seen, acting(confirm, asset_id, by=by):
        asset = ASSET.locked(asset_id)
        access.require(by, asset.brand_id, "editor")
        assets.confirm(asset, seen)


@contextmanager
def _inspected(asset_id: UUID, by: By) -> Iterator[Inspected | Refused | None]:
    """Yield what was uploaded; None if there is nothing to inspect, or not by this caller."""
    asset = Asset.objects.filter(pk=asset_id, is_ready=False).first()
    if asset is None or not _may_confirm(asset, by):
        yield None
        return
    with assets.inspected(asset) as seen:
        yield seen


def _may_confirm(asset: Asset, by: By) -> bool:
    who = principal(by)
    may_see = who.may(ADD_ASSET) and who.scope.covers(asset.tenant, config.QUEUE)
    return may_see and access.has_role(by, asset.brand_id, "editor")


@verb("asset.fetch", on=ASSET, permission=ADD_ASSET, new=True)
def fetch(
    brand: Slug,
    url: Annotated[str, Field(min_length=1, max_length=2000, description="where it is now")],
    name: Name,
    *,
    by: By,
    alt_text: Alt = "",
) -> str:
    """Copy an image or a video from an address."""
    place = jobs.acts.Place(f"brand:{brand}", config.QUEUE)
    with acting(fetch, by=by, place=place) as act:
        owner = _brand(brand, by)
        act.note(name=name)
    made = assets.fetch(owner, url, name, by=str(by), alt_text=alt_text)
    return str(made.pk)


@verb("asset.describe", on=ASSET, permission=ADD_ASSET)
def describe(asset_id: UUID, alt_text: Alt, *, by: By) -> None:
    """Change the alternative text; posts that are scheduled keep theirs."""
    with acting(describe, asset_id, by=by):
        asset = ASSET.locked(asset_id)
        access.require(by, asset.brand_id, "editor")
        asset.alt_text = alt_text
        asset.save(update_fields=["alt_text"])
