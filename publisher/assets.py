"""Assets: uploaded to the store or fetched from an address, looked at, and handed to channels."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any, BinaryIO
from uuid import UUID

from django.db import transaction

from jobs import blobs, http
from jobs.errors import ConfigError
from publisher import config, images, inspection
from publisher.clock import Now
from publisher.content import Content, Media
from publisher.errors import Fault, ProviderError, Refused
from publisher.inspection import INVALID, Declared, Inspected
from publisher.models import Asset, Brand, Publication

BLOCKED = "fp_publisher_preflight_blocked"
LARGEST = 1024**3
LARGEST_FETCHED = 200 * 1024**2
TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp", "video/mp4", "video/quicktime")
LASTS = timedelta(hours=24)
"""How long an address for a provider is valid."""
_FETCH_TIME = 120.0


def announce(
    brand: Brand, name: str, size: int, content_type: str, *, by: str, alt_text: str = ""
) -> Asset:
    """Make an asset whose bytes are not here yet; raise Refused for a type that is none."""
    if content_type not in TYPES:
        raise Refused(INVALID, Fault("content_type", "is none of " + ", ".join(TYPES)))
    return Asset.objects.create(
        brand=brand, tenant=brand.tenant, name=name, size=size, content_type=content_type,
        alt_text=alt_text, created_by=by,
    )  # fmt: skip


def upload_of(asset: Asset) -> blobs.Upload:
    """Return where and how to upload the bytes of an asset."""
    return blobs.store().put_url(asset.blob, size=asset.size, content_type=asset.content_type)


@contextmanager
def inspected(asset: Asset) -> Iterator[Inspected | Refused | None]:
    """Yield what was uploaded, or why it is refused; None if nothing was.

    Call it outside of transactions: decoding takes seconds.
    """
    if blobs.store().head(asset.blob) is None:
        yield None
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(_copy(asset))
            declared = Declared(asset.size, asset.content_type)
            seen: Inspected | Refused = stack.enter_context(inspection.inspect(file, declared))
        except Refused as error:
            seen = error
        yield seen


def confirm(asset: Asset, seen: Inspected | Refused | None) -> None:
    """Keep what was uploaded; raise Refused, and keep nothing, if it is wrong.

    The caller holds the asset's lock, so that one of several callers decides.
    """
    if asset.is_ready:
        return
    if seen is None:
        raise Refused(INVALID, Fault("", "its bytes have not been uploaded"))
    if isinstance(seen, Refused):
        discard(asset)
        raise seen
    _keep(asset, seen)


@contextmanager
def _copy(asset: Asset) -> Iterator[BinaryIO]:
    """Yield a local copy of the bytes."""
    with inspection.temporary() as file, blobs.store().read(asset.blob) as pieces:
        for piece in pieces:
            file.write(piece)
        file.flush()
        yield file


def _keep(asset: Asset, seen: Inspected) -> None:
    """Save the asset with what is known of it, and store what the store has not got."""
    found, decoded = seen.found, seen.decoded
    asset.sha256, asset.size, asset.is_ready = seen.sha256, seen.size, True
    asset.kind, asset.content_type = found.kind, found.content_type
    asset.width, asset.height, asset.seconds = found.width, found.height, found.seconds
    if decoded is not None:
        if decoded.is_turned:
            asset.width, asset.height = found.height, found.width
        asset.is_odd, asset.copy_size = decoded.is_odd, len(decoded.jpeg)
        asset.copy_sha256 = hashlib.sha256(decoded.jpeg).hexdigest() if decoded.jpeg else ""
    asset.save()
    if seen.is_new:
        seen.file.seek(0)
        blobs.store().write(asset.blob, seen.file)
    if decoded is not None and decoded.jpeg:
        blobs.store().write(asset.copy_blob, decoded.jpeg)


def fetch(brand: Brand, url: str, name: str, *, by: str, alt_text: str = "") -> Asset:
    """Make an asset of what is at an address; raise Refused, and keep nothing, if it is wrong.

    Call it outside of transactions: it waits for another host.
    """
    with inspection.temporary() as file:
        for piece in _pieces(url):
            file.write(piece)
        file.flush()
        if not file.tell():
            raise Refused(INVALID, Fault("url", "there is nothing"))
        asset = Asset(
            brand=brand, tenant=brand.tenant, name=name, alt_text=alt_text, created_by=by
        )  # fmt: skip
        with inspection.inspect(file) as seen:
            try:
                with transaction.atomic():
                    _keep(asset, seen)
            except BaseException:
                discard(asset)
                raise
    return asset


def _pieces(url: str) -> Iterator[bytes]:
    try:
        with (
            http.client(total=_FETCH_TIME, redirects=2, max_bytes=LARGEST_FETCHED) as client,
            client.stream("GET", url) as answer,
        ):
            if answer.status_code != 200:
                words = f"its server answers {answer.status_code}"
                raise Refused(INVALID, Fault("url", words))
            yield from answer.iter_bytes(65_536)
    except http.TooLarge:
        raise Refused(INVALID, Fault("url", "is larger than 200 MiB")) from None
    except http.HttpError as error:
        raise Refused(INVALID, Fault("url", str(error))) from None


def discard(asset: Asset) -> None:
    """Delete the bytes of an asset."""
    blobs.store().delete(asset.blob)
    blobs.store().delete(asset.copy_blob)


def bound(brand_id: Any, post: Content, channel: str, where: str = "payload") -> Content:
    """Return the post with type and hash of its assets.

    Raises Refused for those of no brand, and for images that the channel could not get.
    """
    wanted = [one.asset for one in post.media if one.asset is not None]
    if not wanted:
        return post
    if not is_reachable():
        words = "providers cannot fetch assets here: PUBLIC_URL is not set"
        raise Refused(BLOCKED, Fault(f"{where}/media", words))
    rows = Asset.objects.filter(brand=brand_id, is_ready=True, pk__in=wanted)
    known: dict[UUID, Asset] = {row.pk: row for row in rows}
    used = [(f"{where}/media/{n}", one.asset) for n, one in enumerate(post.media) if one.asset]
    if missing := [place for place, asset in used if asset not in known]:
        faults = (
            Fault(f"{place}/asset", "there is no such asset of the brand") for place in missing
        )
        raise Refused(INVALID, *faults)
    reasons = [(place, images.why_not(known[asset], channel)) for place, asset in used]
    if refused := [Fault(place, words) for place, words in reasons if words]:
        raise Refused(BLOCKED, *refused)
    return post.model_copy(update={"media": [_bound(one, known) for one in post.media]})


def use(post: Content) -> None:
    """Note that a post or a plan with assets is stored, in the caller's transaction.

    Raises Refused if one of them has been deleted meanwhile.
    """
    wanted = post.assets
    # In the order of their keys, as no two transactions may wait for each other.
    locked = Asset.objects.filter(pk__in=wanted).order_by("pk").select_for_update(no_key=True)
    if wanted and len(locked) < len(wanted):
        raise Refused(INVALID, Fault("media", "an asset has been deleted"))
    note_use(wanted)


def note_use(wanted: Collection[UUID]) -> None:
    """Note that a post with these assets has ended."""
    if wanted:
        Asset.objects.filter(pk__in=wanted).update(used_at=Now())


def _bound(media: Media, known: dict[UUID, Asset]) -> Media:
    if media.asset is None:
        return media
    row = known[media.asset]
    alt = media.alt_text or row.alt_text
    known_of = {"kind": row.kind, "content_type": row.content_type, "checksum": row.sha256}
    return media.model_copy(update={**known_of, "alt_text": alt})


def address_of(blob: str, content_type: str) -> str:
    """Return an address from which a provider can fetch a blob for a day; empty if none can."""
    url = blobs.store().get_url(blob, content_type=content_type, expires=LASTS)
    if not url.startswith("/"):
        return url
    public = config.settings().PUBLIC_URL.rstrip("/")
    return f"{public}{url}" if public else ""


def is_reachable() -> bool:
    """Return whether providers can fetch assets at all."""
    try:
        url = blobs.store().get_url("publisher/any")
    except ConfigError:
        return False
    return bool(not url.startswith("/") or config.settings().PUBLIC_URL)


def resolved(row: Publication, post: Content, *, is_checked: bool) -> Content:
    """Return the post with addresses for its assets; raise ProviderError if one has changed.

    The bytes are hashed again unless that ``is_checked``.
    """
    if not any(one.asset for one in post.media):
        return post
    media = [_resolved(row, one, is_checked) for one in post.media]
    return post.model_copy(update={"media": media})


def _resolved(row: Publication, media: Media, is_checked: bool) -> Media:
    if media.asset is None:
        return media
    asset = Asset.objects.filter(pk=media.asset, tenant=row.tenant).first()
    if asset is None:
        raise ProviderError("permanent", "the asset is gone")
    blob, content_type, sha256 = asset.blob, asset.content_type, asset.sha256
    if images.needs_copy(asset, row.channel):
        if not asset.copy_size:
            raise ProviderError("permanent", "the image cannot be converted for the channel")
        blob, content_type, sha256 = asset.copy_blob, "image/jpeg", asset.copy_sha256
    if not is_checked and (asset.sha256 != media.checksum or _hash(blob) != sha256):
        raise ProviderError("permanent", "the asset has changed")
    if not (url := address_of(blob, content_type)):
        raise ProviderError("permanent", "PUBLIC_URL is not set, so that nobody can fetch it")
    return media.model_copy(update={"url": url, "content_type": content_type})


def _hash(blob: str) -> str:
    digest = hashlib.sha256()
    try:
        with blobs.store().read(blob) as pieces:
            for piece in pieces:
                digest.update(piece)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()
