"""The admin pages of templates, with their verbs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from jobs.admin import Act, Column, Reason, Words, moment
from publisher import template_verbs
from publisher.admin_base import PublisherAdmin, brand_choices, lines, link_to
from publisher.models import Template


def _in_content(name: str) -> Callable[[Any], Any]:
    """Return what is there of the content, for the field of a form."""
    return lambda form: form.row.content.get(name, "") if form.row is not None else None


class EditForm(Reason):
    """Asks for the name and the text, with the present ones filled in."""

    words = {
        "name": Words(_("Name"), initial=lambda form: form.row and form.row.name),
        "caption": Words(
            _("Caption"), _("With placeholders, such as {{name}}"), initial=_in_content("caption"),
            widget=forms.Textarea, empty="",
        ),
        "headline": Words(
            _("Headline"), _("Of a blog post or video"), initial=_in_content("title"), empty=""
        ),
        "link": Words(_("Link"), initial=_in_content("link"), empty=""),
        "first_comment": Words(
            _("First comment"), _("On Instagram"), initial=_in_content("ig_first_comment"), empty=""
        ),
    }  # fmt: skip


class CreateForm(EditForm):
    """Asks for the brand, too."""

    words = {
        "brand": Words(_("Brand"), choices=lambda form: dict(brand_choices(form.request))),
        **EditForm.words,
    }


@admin.register(Template)
class TemplateAdmin(PublisherAdmin):
    """Templates, newest first."""

    order = ("-created_at", "-id")
    search = "name"
    search_words = _("A whole name")
    nothing = (_("There is no template yet"), _("Create one: a text with placeholders."))
    nouns = ("template",)
    list_acts = (
        Act("create", _("Create…"), form=CreateForm, tone="primary", verb="template.create"),
    )
    acts = (Act("edit", _("Edit…"), form=EditForm, verb="template.edit"),)
    audit_kind = "template"

    def rows(self, request: HttpRequest) -> Any:
        return super().rows(request).select_related("brand")

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Template"), lambda row: row.name),
            Column(_("Brand"), lambda row: row.brand.name),
            Column(_("Created"), moment("created_at"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Template) -> Sequence[tuple[Any, Any]]:
        return [
            (_("Brand"), link_to(self.admin_site.name, "brand", row.brand_id, row.brand.name)),
            (_("Placeholders"), ", ".join(template_verbs.placeholders_of(row))),
            (_("Created by"), row.created_by),
        ]

    def parts(self, request: HttpRequest, row: Template) -> Sequence[tuple[Any, str]]:
        return [(_("Content"), lines(row.content))]
