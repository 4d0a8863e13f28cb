"""The admin pages of brands, with their accounts, members, posting times and blackout windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy as _

from jobs.admin import Act, Column, Reason, Words
from publisher import admin_consents, times, windows
from publisher.admin_base import PublisherAdmin, link_to
from publisher.models import Brand


class TimesForm(Reason):
    """Asks for the posting times, with the present ones filled in."""

    of_row = True
    words = {
        "times_of_day": Words(
            _("Posting times"), _("Such as 09:00, mon-fri 18:30"),
            initial=lambda form: times.words(form.row) if form.row is not None else None,
            widget=forms.Textarea(attrs={"rows": 3}), empty="",
        ),
        "time_zone": Words(_("Time zone"), _("What is planned keeps its moment")),
    }  # fmt: skip


def _windows(form: Any) -> dict[int, str]:
    rows = windows.of_brand(form.row) if form.row is not None else ()
    return {row.pk: windows.words(row) for row in rows}


class RemoveWindowForm(Reason):
    """Asks which window."""

    words = {"window": Words(_("Blackout window"), choices=_windows)}


def _has_none(request: HttpRequest, row: Brand) -> Any:
    return "" if windows.of_brand(row).exists() else _("It has no blackout window.")


@admin.register(Brand)
class BrandAdmin(PublisherAdmin):
    """Brands; a page offers to connect accounts."""

    order = ("name", "id")
    search = "slug"
    search_words = _("A whole slug")
    nothing = (_("There is no brand yet"), _("Create one to connect its accounts."))
    nouns = ("brand",)
    acts = (
        Act("set-times", _("Set times…"), form=TimesForm, verb="brand.set_times"),
        Act(
            "remove-window", _("Remove window…"), form=RemoveWindowForm,
            forbidden=_has_none, verb="brand.remove_window",
        ),
    )  # fmt: skip
    audit_kind = "brand"

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Brand"), lambda row: row.name),
            Column(_("Slug"), lambda row: row.slug),
            Column(_("Time zone"), lambda row: row.time_zone),
        )

    def facts(self, request: HttpRequest, row: Brand) -> Sequence[tuple[Any, Any]]:
        site = self.admin_site.name
        accounts = format_html_join(
            ", ", "{}",
            ((link_to(site, "account", one.pk, one.name),)
             for one in row.accounts.order_by("name")),
        )  # fmt: skip
        members = ", ".join(str(one) for one in row.members.select_related("user").order_by("id"))
        columns = self.columns(request)[1:]
        return [
            *((one.label, one.draw(row)) for one in columns),
            (_("Posting times"), times.words(row)),
            (_("Accounts"), accounts),
            (_("Connect an account of"), admin_consents.links(request, row)),
            (_("Members"), members),
        ]

    def parts(self, request: HttpRequest, row: Brand) -> Sequence[tuple[Any, str]]:
        own = [windows.words(one) for one in windows.of_brand(row)]
        common = [f"{windows.words(one)} ({name})" for one, name in windows.common()]
        return [
            (_("Blackout windows"), "\n".join(own)),
            (_("Blackout windows of all brands"), "\n".join(common)),
        ]
