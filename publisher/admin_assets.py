"""The admin pages of assets, with their verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from jobs import blobs
from jobs.admin import Act, Column, Reason, Tab, Words, moment, principal
from publisher import asset_verbs, assets
from publisher.admin_base import PublisherAdmin, link_to
from publisher.models import Asset


class UploadForm(Reason):
    """Asks for what is known of a file before it is sent."""

    words = {
        "brand": Words(_("Brand"), _("A whole slug")),
        "name": Words(_("File")),
        "size": Words(_("Size")),
        "content_type": Words(_("Type"), choices={one: one for one in assets.TYPES}),
        "alt_text": Words(_("Alternative text")),
    }


def _upload(request: HttpRequest, row: None, given: dict[str, Any]) -> str:
    made = asset_verbs.upload(by=principal(request), **given)
    words = gettext("Send the bytes with PUT to %(url)s, then confirm the asset %(id)s.")
    return words % {"url": made["url"], "id": made["id"]}


@admin.register(Asset)
class AssetAdmin(PublisherAdmin):
    """Assets, newest first. Bytes are uploaded through the API, or copied from an address."""

    order = ("-created_at", "-id")
    search = "name"
    tabs = tuple(Tab(one.value, one.label, {"kind": one}) for one in Asset.Kind)
    nothing = (_("There is no asset yet"), _("Copy one from an address, or upload it by API."))
    nouns = ("asset",)
    list_acts = (Act("upload", _("Upload…"), _upload, form=UploadForm, verb="asset.upload"),)
    audit_kind = "asset"

    def rows(self, request: HttpRequest) -> Any:
        return super().rows(request).filter(is_ready=True).select_related("brand")

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Asset"), lambda row: row.name),
            Column(_("Brand"), lambda row: row.brand.name),
            Column(_("Type"), lambda row: row.content_type),
            Column(_("Created"), moment("created_at"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Asset) -> Sequence[tuple[Any, Any]]:
        url = blobs.store().get_url(row.blob, content_type=row.content_type, filename=row.name)
        return [
            (_("Brand"), link_to(self.admin_site.name, "brand", row.brand_id, row.brand.name)),
            (_("Type"), row.content_type),
            (_("Size"), filesizeformat(row.size)),
            (_("Dimensions"), f"{row.width} x {row.height}" if row.width else ""),
            (_("Seconds"), f"{row.seconds:.1f}" if row.seconds else ""),
            (_("Alternative text"), row.alt_text),
            ("SHA-256", row.sha256),
            (_("File"), format_html('<a href="{}">{}</a>', url, row.name)),
            (_("JPEG copy"), _copy_of(row)),
            (_("Created by"), row.created_by),
        ]


def _copy_of(row: Asset) -> Any:
    """Return a link to the copy for channels that cannot take the image, with its size."""
    if not row.copy_size:
        return ""
    name = f"{row.name}.jpg"
    url = blobs.store().get_url(row.copy_blob, content_type="image/jpeg", filename=name)
    return format_html('<a href="{}">{}</a>', url, filesizeformat(row.copy_size))
