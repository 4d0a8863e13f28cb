"""The admin pages of plans and slots, with their verbs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.forms.widgets import Script
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path, reverse, reverse_lazy
from django.utils.html import format_html_join
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from jobs.admin import Act, Column, Reason, Tab, Words, components, moment
from publisher import channels, counters, plan_verbs, plans, preflight, repeats
from publisher.admin_base import PublisherAdmin, brand_choices, lines, link_to
from publisher.content import Content
from publisher.models import Approval, Asset, Brand, Comment, Plan, PlanVersion, Slot, Template

LOOKS = {
    "draft": "paused", "ready": "pending", "approved": "active", "scheduled": "queued",
    "published": "succeeded", "failed": "failed",
}  # fmt: skip
COUNTED: dict[str, Any] = {"data-counters": reverse_lazy("admin:publisher_plan_counters")}
"""Where a script asks how long a text is on each channel."""
_SCRIPTS: list[Any] = [Script("publisher/counters.js", defer=True)]
OFFERED = 30
"""A form offers up to this many assets."""
SHOWN = 50
"""At most so many versions, decisions and comments are on a page."""


def _in_draft(name: str) -> Callable[[Any], Any]:
    """Return what the draft has, for the field of a form."""
    return lambda form: getattr(plans.draft_of(form.row), name) if form.row is not None else None


def _placeholders(form: Any) -> str | None:
    if form.row is None:
        return None
    return plan_verbs.lines_of(plans.draft_of(form.row).placeholders)


def _assets(form: Any) -> dict[UUID, str]:
    """Return the newest assets that a plan may show, and those that it shows."""
    rows = Asset.objects.filter(is_ready=True).order_by("-created_at")
    if form.row is None:
        slugs = [slug for slug, _name in brand_choices(form.request)]
        return {
            one.pk: f"{one.brand.name}: {one.name}"
            for one in rows.filter(brand__slug__in=slugs).select_related("brand")[:OFFERED]
        }
    shown = plans.draft_of(form.row).assets
    rows = rows.filter(brand=form.row.brand_id)
    found = {one.pk: one.name for one in rows[:OFFERED]}
    return found | {one.pk: one.name for one in rows.filter(pk__in=shown - set(found))}


def _channels(form: Any) -> dict[str, Any]:
    return dict(channels.choices())


def _shown_assets(form: Any) -> list[UUID] | None:
    return list(plans.draft_of(form.row).assets) if form.row is not None else None


def _templates(form: Any) -> dict[UUID, str]:
    slugs = [slug for slug, _name in brand_choices(form.request)]
    rows = Template.objects.filter(brand__slug__in=slugs).select_related("brand")
    return {one.pk: f"{one.brand.name}: {one.name}" for one in rows.order_by("name")}


class EditForm(Reason):
    """Asks for the text, with the present one filled in; what is left empty becomes empty."""

    words = {
        "caption": Words(
            _("Caption"), initial=_in_draft("caption"), widget=forms.Textarea(attrs=COUNTED),
            empty="",
        ),
        "headline": Words(
            _("Headline"), _("Of a blog post or video"), initial=_in_draft("title"), empty=""
        ),
        "link": Words(_("Link"), initial=_in_draft("link"), empty=""),
        "first_comment": Words(
            _("First comment"), _("On Instagram"), initial=_in_draft("ig_first_comment"), empty=""
        ),
        "placeholders": Words(
            _("Placeholders"), _("A line name=value for each {{name}}"), initial=_placeholders,
            widget=forms.Textarea(attrs={"rows": 3}), empty="",
        ),
        "assets": Words(
            _("Assets"), _("The newest are offered"), initial=_shown_assets, choices=_assets,
            widget=forms.CheckboxSelectMultiple,
        ),
    }  # fmt: skip


class OverrideForm(Reason):
    """Asks for the text of one channel."""

    words = {
        "channel": Words(_("Channel"), choices=_channels),
        "caption": Words(
            _("Caption"), _("Empty: as on all channels"), widget=forms.Textarea(attrs=COUNTED)
        ),
        "headline": Words(_("Headline"), _("Of a blog post or video")),
        "link": Words(_("Link")),
    }


def _from_address(name: str) -> Callable[[Any], Any]:
    """Return what a link to the form has filled in, such as the calendar's."""
    return lambda form: form.request.GET.get(name) if form.request is not None else None


class CreateForm(EditForm):
    """Asks for a plan: its brand, its text, its channels and when it appears."""

    field_order = ("brand", "title", "template", "caption", "headline", "link")
    words = {
        "brand": Words(
            _("Brand"),
            choices=lambda form: dict(brand_choices(form.request)),
            initial=_from_address("brand"),
        ),
        "title": Words(_("Title"), _("Only members see it")),
        "image": Words(_("Address of an image")),
        "video": Words(_("Address of a video")),
        "channels": Words(_("Channels"), choices=_channels, widget=forms.CheckboxSelectMultiple),
        "at": Words(
            _("When"),
            _("Such as 2031-05-01T10:00, in the zone of the brand, or next"),
            initial=_from_address("at"),
        ),
        "template": Words(_("Template"), _("Fills what is left empty"), choices=_templates),
        **EditForm.words,
    }


def _to_page(request: HttpRequest, row: None, made: Plan) -> tuple[str, str]:
    """Return what to say about a new plan, and its page."""
    return gettext("Created."), reverse("admin:publisher_plan_change", args=[made.pk])


@admin.register(Plan)
class PlanAdmin(PublisherAdmin):
    """Plans, newest first."""

    order = ("-created_at", "-id")
    search = "title"
    search_words = _("A whole title")
    tabs = tuple(Tab(one.value, one.label, {"status": one}) for one in Plan.Status)
    nothing = (_("There is no plan yet"), _("Create one: a post for one or more channels."))
    nouns = ("plan",)
    list_acts = (
        Act("create", _("Create…"), form=CreateForm, tone="primary", verb="plan.create",
            show=_to_page),
    )  # fmt: skip
    acts = (
        Act("edit", _("Edit…"), form=EditForm, verb="plan.edit"),
        Act("override", _("Override…"), form=OverrideForm, verb="plan.override"),
    )
    audit_kind = "plan"

    @property
    def media(self) -> forms.Media:
        return super().media + forms.Media(js=_SCRIPTS)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.counters)
        return [path("counters/", view, name="publisher_plan_counters"), *super().get_urls()]

    def counters(self, request: HttpRequest) -> HttpResponse:
        """Return how long the text of a form is on each of its channels."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        given = request.POST
        names = given.getlist("channels") or given.getlist("channel")
        row = None
        with suppress(ValueError):
            row = self.rows(request).filter(pk=UUID(given.get("plan", ""))).first()
        if not names and row is not None:
            names = list(row.slots.values_list("channel", flat=True))
        brand = row.brand_id if row is not None else self._brand(request, given.get("brand", ""))
        wanted = [name for name in dict.fromkeys(names) if name in channels.names()]
        return JsonResponse({"counters": counters.of_form(given.dict(), wanted, brand)})

    def _brand(self, request: HttpRequest, slug: str) -> Any:
        """Return the id of a brand that the user may see."""
        known = dict(brand_choices(request))
        return Brand.objects.only("pk").get(slug=slug).pk if slug in known else None

    def rows(self, request: HttpRequest) -> Any:
        return super().rows(request).select_related("brand")

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Plan"), lambda row: row.title),
            Column(_("Brand"), lambda row: row.brand.name),
            Column(_("Version"), lambda row: row.version),
            Column(_("Created"), moment("created_at"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Plan) -> Sequence[tuple[Any, Any]]:
        site = self.admin_site.name
        slots = row.slots.select_related("publication").order_by("at", "id")
        drawn = format_html_join(
            ", ", "{} {}", ((self._slot(one), _of(site, one)) for one in slots)
        )
        return [
            (_("Status"), row.get_status_display()),
            (_("Brand"), link_to(site, "brand", row.brand_id, row.brand.name)),
            (_("Version"), row.version),
            (pgettext_lazy("plan", "Slots"), drawn),
            (_("Created by"), row.created_by),
        ]

    def _slot(self, slot: Slot) -> Any:
        return link_to(self.admin_site.name, "slot", slot.pk, slot)

    def parts(self, request: HttpRequest, row: Plan) -> Sequence[tuple[Any, str]]:
        draft = plans.draft_of(row)
        shown = row.slots.order_by("channel").values_list("channel", flat=True).distinct()
        looks = [preflight.look_at(row.brand_id, draft, one) for one in shown]
        names = dict(Asset.objects.filter(pk__in=draft.assets).values_list("pk", "name"))
        posts: list[tuple[Any, str]] = [
            (_counted(one), lines(_shown(draft.on(one.channel), names))) for one in looks
        ]
        decided = Approval.objects.filter(version__plan=row).select_related("version")
        decisions = decided.order_by("-id")[:SHOWN]
        slots = row.slots.select_related("publication", "account__brand").order_by("at", "id")
        alike = dict.fromkeys(words for one in slots for words in repeats.of_slot(one, draft))
        warnings = [*_checks(looks, "warning"), *alike]
        return [
            *(posts or [(_("Content"), lines(draft.kept()))]),
            (_("Problems"), "\n".join(_checks(looks, "fail"))),
            (_("Warnings"), "\n".join(warnings)),
            (_("Changes since the version before"), _changes(row)),
            (
                _("Decisions"),
                "\n".join(_decision(one) for one in decisions),
            ),
            (_("Comments"), "\n".join(_comment(one) for one in _comments(row))),
        ]

    def look(self, row: Plan) -> str:
        return LOOKS[row.status]


def _shown(post: Content, names: Mapping[UUID, str]) -> dict[str, Any]:
    """Return a post with its placeholders filled, as its approver reads it."""
    found = post.filled().model_dump(
        mode="json", exclude_defaults=True, exclude={"placeholders", "media"}
    )
    media = [names.get(one.asset, str(one.asset)) if one.asset else one.url for one in post.media]
    return {**found, "media": ", ".join(media)} if media else found


def _counted(seen: preflight.Seen) -> str:
    """Return the name of a channel, with the length of the text as it counts, and its limit."""
    label = channels.label(seen.channel)
    return f"{label}: {seen.length} / {seen.limit}" if seen.limit else label


def _checks(looks: Sequence[preflight.Seen], level: str) -> list[str]:
    """Return what the channels have to say, each named once."""
    found = []
    for seen in looks:
        label = channels.label(seen.channel)
        for one in seen.checks:
            if one.level == level:
                text = one.message.removeprefix(f"{label}: ")
                found.append(f"{label}, {one.pointer.removeprefix('/content/')}: {text}")
    return found


def _changes(row: Plan) -> str:
    """Return what differs between the current version and the one before."""
    numbers = [row.version - 1, row.version]
    found = PlanVersion.objects.filter(plan=row, number__in=numbers).order_by("number")
    versions = [lines(one.content).splitlines() for one in found]
    if len(versions) < 2:
        return ""
    before, after = versions
    return "\n".join(line for line in difflib.ndiff(before, after) if not line.startswith("? "))


def _decision(one: Approval) -> str:
    void = f" ({_('void')})" if one.voided_at else ""
    said = f": {one.note}" if one.note else ""
    return (
        f"{one.at:%Y-%m-%d %H:%M} UTC  v{one.version.number} "
        f"{one.get_decision_display()} ({one.by}){void}{said}"
    )


def _comments(row: Plan) -> Any:
    return Comment.objects.filter(plan=row).order_by("-id")[:SHOWN]


def _comment(one: Comment) -> str:
    return f"{one.at:%Y-%m-%d %H:%M} UTC  {one.by}: {one.body}"


def _of(site: str, slot: Slot) -> Any:
    """Return the state of the publication of a slot, with a link to it."""
    post = slot.publication
    return link_to(site, "publication", post.pk, post.get_status_display()) if post else ""


@admin.register(Slot)
class SlotAdmin(PublisherAdmin):
    """Slots, latest first."""

    order = ("-at", "-id")
    nothing = (_("There is no slot yet"), _("Add one on the page of a plan."))
    nouns = ("slot",)
    audit_kind = "slot"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return PlanAdmin(Plan, self.admin_site).has_view_permission(request)

    def rows(self, request: HttpRequest) -> Any:
        return super().rows(request).select_related("plan", "account", "publication")

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Slot"), str),
            Column(_("Plan"), lambda row: row.plan.title),
            Column(_("Account"), lambda row: row.account.name),
        )

    def facts(self, request: HttpRequest, row: Slot) -> Sequence[tuple[Any, Any]]:
        site = self.admin_site.name
        local = row.at.astimezone(ZoneInfo(row.zone))
        return [
            (_("Plan"), link_to(site, "plan", row.plan_id, row.plan.title)),
            (_("Account"), link_to(site, "account", row.account_id, row.account.name)),
            (_("Local time"), f"{local:%Y-%m-%d %H:%M} {row.zone}"),
            (_("Warning"), row.get_note_display()),
            (_("Scheduled"), components.time_tag(row.at)),
            (_("Publish until"),
             components.time_tag(row.publish_until) if row.publish_until else ""),
            (_("Publication"), _of(site, row)),
        ]  # fmt: skip
