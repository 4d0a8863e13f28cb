"""The admin pages of assets, with their verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.forms.widgets import Script
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from jobs import blobs
from jobs.admin import Act, Column, Reason, Tab, Words, moment, principal
from publisher import asset_verbs, assets
from publisher.admin_base import PublisherAdmin, brand_choices, link_to
from publisher.models import Asset

_HIDDEN = forms.HiddenInput
_SCRIPTS: list[Any] = [Script("publisher/upload.js", defer=True)]


class SentByScript(forms.FileField):
    """A file whose bytes go to the store, and not through here."""

    def clean(self, data: Any, initial: Any = None) -> None:
        return None


class UploadForm(Reason):
    """Asks for a file, which a script announces, sends to the store, and confirms."""

    field_order = ("brand", "file", "alt_text")
    file = SentByScript(
        label=_("File"),
        help_text=_("A JPEG, PNG, GIF or WebP image, or an MP4 or MOV video, up to 1 GiB"),
    )
    asset = forms.UUIDField(required=False, widget=_HIDDEN)
    """What was announced and sent."""
    words = {
        "brand": Words(_("Brand"), choices=lambda form: dict(brand_choices(form.request))),
        "name": Words(_("Name"), widget=_HIDDEN),
        "size": Words(_("Size"), widget=_HIDDEN),
        "content_type": Words(_("Type"), widget=_HIDDEN),
        "alt_text": Words(_("Alternative text"), _("What it shows, for those who cannot see it")),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["file"].widget.attrs |= {
            "accept": ",".join(assets.TYPES),
            "data-sending": gettext("Sending…"),
            "data-failed": gettext("The file could not be sent. Try again."),
        }


def _upload(request: HttpRequest, row: None, given: dict[str, Any]) -> HttpResponseBase | str:
    """Announce a file and return where to send it; with the id of one that was sent, confirm it."""
    given.pop("file")
    by = principal(request)
    if (sent := given.pop("asset")) is not None:
        asset_verbs.confirm(sent, by=by)
        url = reverse("admin:publisher_asset_change", args=[sent])
        return JsonResponse({"url": url})
    made = asset_verbs.upload(by=by, **{n: text for n, text in given.items() if text is not None})
    if "application/json" in request.headers.get("Accept", ""):
        return JsonResponse(made)
    words = gettext("Send the bytes with PUT to %(url)s, then confirm the asset %(id)s.")
    return words % {"url": made["url"], "id": made["id"]}


@admin.register(Asset)
class AssetAdmin(PublisherAdmin):
    """Assets, newest first: uploaded here or through the API, or copied from an address."""

    order = ("-created_at", "-id")
    search = "name"
    tabs = tuple(Tab(one.value, one.label, {"kind": one}) for one in Asset.Kind)
    nothing = (_("There is no asset yet"), _("Upload one, or copy it from an address."))
    nouns = ("asset",)
    list_acts = (
        Act("upload", _("Upload…"), _upload, form=UploadForm, tone="primary", verb="asset.upload"),
    )
    audit_kind = "asset"

    @property
    def media(self) -> forms.Media:
        return super().media + forms.Media(js=_SCRIPTS)

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
