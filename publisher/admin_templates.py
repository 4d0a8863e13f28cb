"""The admin pages of templates, with their verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from jobs.admin import Act, Column, Reason, moment, principal
from publisher import template_verbs
from publisher.admin_base import PublisherAdmin, brand_choices, lines, link_to
from publisher.models import Template


class EditForm(Reason):
    """Asks for the name and the text, with the present ones filled in."""

    reason = None  # type: ignore[assignment]
    name = forms.CharField(label=_("Name"), max_length=150)
    caption = forms.CharField(
        label=_("Caption"), required=False, max_length=63_206, widget=forms.Textarea,
        help_text=_("With placeholders, such as {{name}}"),
    )  # fmt: skip
    headline = forms.CharField(
        label=_("Headline"), required=False, max_length=500,
        help_text=_("Of a blog post or video"),
    )  # fmt: skip
    link = forms.CharField(label=_("Link"), required=False, max_length=2000)
    first_comment = forms.CharField(
        label=_("First comment"), required=False, max_length=2200, help_text=_("On Instagram")
    )

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        if self.row is not None:
            content = self.row.content
            self.initial = {
                "name": self.row.name, "caption": content.get("caption", ""),
                "headline": content.get("title", ""), "link": content.get("link", ""),
                "first_comment": content.get("ig_first_comment", ""),
            }  # fmt: skip


class CreateForm(EditForm):
    """Asks for the brand, too."""

    field_order = ("brand", "name", "caption")
    brand = forms.ChoiceField(label=_("Brand"))

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        brand: Any = self.fields["brand"]
        brand.choices = brand_choices(self.request)


def _edit(request: HttpRequest, row: Template, given: dict[str, Any]) -> None:
    template_verbs.edit(row.pk, by=principal(request), **given)


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
    acts = (Act("edit", _("Edit…"), _edit, form=EditForm, verb="template.edit"),)
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
