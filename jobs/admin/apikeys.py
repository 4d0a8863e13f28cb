"""API keys: made, given a new secret, taken back. A secret is shown once."""

from __future__ import annotations

from typing import Any

from django import forms
from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import tables
from jobs.admin.access import principal
from jobs.admin.actions import Act, Reason, site_of
from jobs.admin.base import PlatformAdmin
from jobs.admin.copying import api, cli
from jobs.admin.fields import HOUR, LINES, Words
from jobs.admin.jobforms import told_once
from jobs.admin.recent import recent_acts
from jobs.engine import sql
from jobs.errors import UnknownTarget
from jobs.models import ApiKey
from jobs.operate import apikeys
from jobs.principals import every_permission, words_of


def _grantable(form: Reason) -> dict[str, Any]:
    who = principal(form.request)
    return {name: _permission(name) for name in sorted(every_permission()) if who.may(name)}


_ALL = gettext_lazy("Empty means all.")


class KeyForm(Reason):
    """What the key may do, and where."""

    words = {
        "name": Words(gettext_lazy("Name")),
        "permissions": Words(
            gettext_lazy("Permissions"), choices=_grantable, widget=forms.CheckboxSelectMultiple
        ),
        "tenants": Words(gettext_lazy("Tenants"), _ALL, widget=LINES),
        "queues": Words(gettext_lazy("Queues"), _ALL, widget=LINES),
        "addresses": Words(
            gettext_lazy("Allowed addresses"),
            gettext_lazy("Addresses or networks, like 192.0.2.0/24; empty means all."),
            widget=LINES,
        ),
        "expires_at": Words(gettext_lazy("Expires"), gettext_lazy("Empty means never.")),
    }


def _permission(name: str) -> Any:
    """What it allows in words, with the name that the API knows it by."""
    words = _in_words(name)
    code = format_html('<span class="jd-mono jd-quiet">{}</span>', name)
    return code if words == name else format_html("<span>{}<br>{}</span>", words, code)


def _in_words(name: str) -> Any:
    """What is shown of it; for seeing rows, which rows."""
    words = words_of(name)
    verb, _line, model = name.partition("_")
    if words == name and verb == "view" and model in apps.all_models["jobs"]:
        plural = apps.get_model("jobs", model)._meta.verbose_name_plural
        return _("Can see %(what)s") % {"what": plural}
    return words


class RotateForm(Reason):
    words = {
        "overlap": Words(gettext_lazy("Hours for which the old secret is good"), unit=HOUR),
    }


def _tell(request: HttpRequest, row: ApiKey | None, told: apikeys.Told) -> HttpResponse:
    url = reverse(f"{site_of(request)}:jobs_apikey_change", args=[told.key.pk])
    words = _("Copy it now: it is not kept, and nobody can show it again.")
    return told_once(request, capfirst(_("API key")), told.key, told.text, url, words)


def _revoked(request: HttpRequest, row: ApiKey) -> str:
    return _("It is revoked already.") if row.revoked_at is not None else ""


@admin.register(ApiKey)
class ApiKeyAdmin(PlatformAdmin):
    """Keys of programs that use the API."""

    list_template = "jobs/admin/apikeys.html"
    page_template = "jobs/admin/apikey.html"
    nouns = ("apikey",)
    list_acts = (
        Act("new", gettext_lazy("New key…"), form=KeyForm, show=_tell,
            tone="primary", verb="apikey.create", submit=gettext_lazy("Create"),
            consequences=lambda r, k: [_("Anyone with the key can do this, without a login."),
                                       _("Its secret is shown once, on the next page.")]),
    )  # fmt: skip
    acts = (
        Act("rotate", gettext_lazy("New secret…"), None, _revoked,
            lambda r, k: [_("The new secret is shown once, on the next page."),
                          _("The old one is good for some hours more.")],
            RotateForm, show=_tell, verb="apikey.rotate"),
        Act("revoke", gettext_lazy("Revoke…"), None, _revoked,
            lambda r, k: [_("None of its secrets works any more.")],
            tone="danger", verb="apikey.revoke", many=True,
            done=gettext_lazy("The key is revoked.")),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        found = tables.page(request, apikeys.visible(principal(request)), "-created_at", "-id")
        [(now,)] = sql.rows("SELECT jobs_clock()")
        return {
            **found,
            "title": capfirst(_("API keys")),
            "rows": [
                {"k": k, "url": self.page_url(k.pk), "state": _state(k, now),
                 "buttons": self.buttons(request, k, k.pk)} for k in found["rows"]
            ],
            "list_buttons": self.list_buttons(request),
            "api": api("apikey_list"),
            "cli": cli("api-keys", "list"),
        }  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        if not key.isascii() or not key.isdigit() or len(key) > 18:
            return None
        try:
            return apikeys.find(int(key), by=principal(request))
        except UnknownTarget:
            return None

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        [(now,)] = sql.rows("SELECT jobs_clock()")
        return {
            "title": row.name,
            "k": row,
            "state": _state(row, now),
            "buttons": self.buttons(request, row, row.pk),
            "acts": recent_acts(request, self.admin_site.name, target_kind="apikey",
                                target_id=str(row.pk)),
            "api": api("apikey_get", row.pk),
        }  # fmt: skip


def _state(key: ApiKey, now: Any) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "active"
