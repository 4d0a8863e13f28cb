"""The admin's way to connect an account: to the provider, back, and the choice of the account."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from jobs import errors
from jobs.admin import Act, Reason, Words, principal
from publisher import channels, consents, oauth
from publisher.admin_base import PublisherAdmin, link_to
from publisher.errors import Refused
from publisher.models import Brand, Consent
from publisher.verbs import MANAGE_ACCOUNT


class ChooseForm(Reason):
    """Asks for the page, location or user."""

    words = {
        "account": Words(
            _("Account"),
            choices=lambda form: consents.choices(form.row) if form.row is not None else {},
            widget=forms.RadioSelect,
        ),
    }  # fmt: skip


def _to_account(request: HttpRequest, row: Consent, made: Any) -> tuple[str, str]:
    return gettext("Connected."), reverse("admin:publisher_account_change", args=[made.pk])


@admin.register(Consent)
class ConsentAdmin(PublisherAdmin):
    """The answers of providers; nobody lists them."""

    order = ("-created_at", "-id")
    nouns = ("consent",)
    acts = (
        Act("connect", _("Connect…"), form=ChooseForm, tone="primary", verb="consent.connect",
            show=_to_account),
    )  # fmt: skip
    long = ("secrets",)

    def get_model_perms(self, request: HttpRequest) -> dict[str, bool]:
        return {}

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return principal(request).may(MANAGE_ACCOUNT)

    def rows(self, request: HttpRequest) -> Any:
        rows = super().rows(request).select_related("brand")
        return rows.filter(user_id=request.user.pk, is_answered=True)

    def facts(self, request: HttpRequest, row: Consent) -> list[tuple[Any, Any]]:
        site = self.admin_site.name
        return [
            (_("Channel"), row.get_channel_display()),
            (_("Brand"), link_to(site, "brand", row.brand_id, row.brand.name)),
        ]

    def get_urls(self) -> list[Any]:
        wrap = self.admin_site.admin_view
        return [
            path("ask/<uuid:brand_id>/<slug:channel>/", wrap(self.ask), name="publisher_ask"),
            path("answer/", wrap(self.answer), name="publisher_answer"),
            *super().get_urls(),
        ]

    def ask(self, request: HttpRequest, brand_id: UUID, channel: str) -> HttpResponse:
        """Send the person to the provider."""
        brand, who = self._brand(request, brand_id), principal(request)
        if not who.may(MANAGE_ACCOUNT):
            raise PermissionDenied
        try:
            url = consents.ask(brand, channel, who, _session(request), self._back(request))
        except (Refused, errors.Denied) as error:
            return self._to_brand(request, brand_id, str(error))
        return HttpResponseRedirect(url)

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Take the person back from the provider."""
        given = request.GET
        try:
            row = consents.answered(given.get("state", ""), _session(request), request.user.pk)
        except Refused as error:
            messages.error(request, str(error))
            return HttpResponseRedirect(reverse("admin:publisher_brand_changelist"))
        if given.get("error") or not given.get("code"):
            return self._to_brand(request, row.brand_id, gettext("The consent was not given."))
        try:
            consents.open_accounts(row, given["code"][:4000], self._back(request))
        except Refused as error:
            return self._to_brand(request, row.brand_id, str(error))
        return HttpResponseRedirect(
            reverse("admin:publisher_consent_act", args=[row.pk, "connect"])
        )

    def _back(self, request: HttpRequest) -> str:
        return request.build_absolute_uri(reverse("admin:publisher_answer"))

    def _to_brand(self, request: HttpRequest, brand_id: UUID, words: str) -> HttpResponse:
        messages.error(request, words)
        return HttpResponseRedirect(reverse("admin:publisher_brand_change", args=[brand_id]))

    def _brand(self, request: HttpRequest, brand_id: UUID) -> Brand:
        scope, row = principal(request).scope, get_object_or_404(Brand, pk=brand_id)
        if scope.tenants is not None and row.tenant not in scope.tenants:
            raise Http404
        return row


def _session(request: HttpRequest) -> str:
    if not request.session.session_key:
        request.session.save()
    return str(request.session.session_key)


def links(request: HttpRequest, row: Brand) -> Any:
    """Return a link for each channel that is connected by consent."""
    if not principal(request).may(MANAGE_ACCOUNT):
        return ""
    found = (
        (reverse("admin:publisher_ask", args=[row.pk, name]), channels.label(name))
        for name in oauth.SERVICES
    )
    return format_html("{}", format_html_join(", ", '<a href="{}">{}</a>', found))
