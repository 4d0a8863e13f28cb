"""The admin pages of publications and accounts, with their verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

import jobs
from jobs.admin import Column, Tab, components, moment, principal, register_panel
from jobs.models import Effect
from publisher import admin_assets as admin_assets
from publisher import admin_brands as admin_brands
from publisher import admin_calendar as admin_calendar
from publisher import admin_plans as admin_plans
from publisher import admin_templates as admin_templates
from publisher import connectors, times, verbs
from publisher.admin_base import PublisherAdmin, link_to
from publisher.content import Content
from publisher.errors import Refused
from publisher.models import Account, Publication, PublicationEvent

LOOKS = {"pending": "pending", "running": "running", "completed": "succeeded", "failed": "failed"}
ACCOUNT_LOOKS = {"connected": "active", "needs_reconnect": "failed", "disabled": "paused"}


@admin.register(Publication)
class PublicationAdmin(PublisherAdmin):
    """Publications, newest first."""

    order = ("-scheduled_at", "-id")
    search = "key"
    search_words = _("A whole key")
    tabs = (
        *(Tab(one.value, one.label, {"status": one}) for one in Publication.Status),
        Tab("in_doubt", _("in doubt"), {"reason": Publication.Reason.IN_DOUBT}),
    )
    nothing = (
        _("There is no publication yet"),
        _("Schedule a post on the page of an account, or send one to POST /publisher/jobs."),
    )
    nouns = ("publication",)
    audit_kind = "publication"
    long = ("content", "handle")

    def rows(self, request: HttpRequest) -> Any:
        return super().rows(request).select_related("account", "brand", "plan_version__plan")

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Channel"), lambda row: row.get_channel_display()),
            Column(_("Account"), lambda row: row.account.name),
            Column(_("Brand"), lambda row: row.brand.name),
            Column(_("Scheduled"), moment("scheduled_at"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Publication) -> Sequence[tuple[Any, Any]]:
        site = self.admin_site.name
        job = reverse(f"{site}:jobs_job_change", args=[row.pk])
        has_job = jobs.Job.objects.filter(pk=row.pk).exists()
        return [
            (_("Why"), _why(row) if has_job else ""),
            (_("Link"), _public(row)),
            (_("Reason"), row.get_reason_display()),
            (_("Error"), row.error),
            (_("Account"), link_to(site, "account", row.account_id, row.account.name)),
            (_("Scheduled"), components.time_tag(row.scheduled_at)),
            (_("Next attempt"), components.time_tag(row.run_at) if row.status == "pending" else ""),
            (_("Publish until"), components.time_tag(row.publish_until)),
            (_("Attempts"), row.attempts),
            (_("Id at the provider"), row.remote_id),
            (_("Key"), row.key),
            (_("Plan"), link_to(site, "plan", row.plan_version.plan_id, row.plan_version.plan)
             if row.plan_version else ""),
            (_("First comment of"),
             link_to(site, "publication", row.parent_id, row.parent_id) if row.parent_id else ""),
            (_("Job"), format_html('<a href="{}">{}</a>', job, row.pk) if has_job else ""),
        ]  # fmt: skip

    def parts(self, request: HttpRequest, row: Publication) -> Sequence[tuple[Any, str]]:
        if not row.content:
            return [
                (_("As the channel gets it"), str(_("Its text was deleted, as it is too old.")))
            ]
        post = Content.model_validate(row.content)
        shown = connectors.of(row.channel).preview(post)
        body = "\n".join(f"{name}: {text}" for name, text in shown.items() if text)
        events = "\n".join(_line(one) for one in row.events.order_by("id")[:200])
        found = [(_("As the channel gets it"), body)]
        steps = "\n".join(_step(one) for one in Effect.objects.filter(job=row.pk).order_by("id"))
        more = [(_("Steps"), steps), (_("History"), events)]
        return [*found, *(one for one in more if one[1])]

    def look(self, row: Publication) -> str:
        return "in_doubt" if row.reason == Publication.Reason.IN_DOUBT else LOOKS[row.status]


def _line(event: PublicationEvent) -> str:
    detail = ", ".join(f"{name}: {text}" for name, text in event.detail.items())
    label = Publication.Status(event.type).label
    return f"{event.at:%Y-%m-%d %H:%M:%S} UTC  {label} ({event.by})" + (
        f"  {detail}" * bool(detail)
    )


def _step(effect: Effect) -> str:
    """Return a call that changed something at the provider, and what is known of it."""
    settled = f", settled {effect.settled_at:%H:%M:%S}" if effect.settled_at else ""
    return f"{effect.intended_at:%Y-%m-%d %H:%M:%S} UTC  {effect.key}: {effect.state}{settled}"


def _why(row: Publication) -> str:
    return jobs.explain(row.pk).words


def _public(row: Publication) -> Any:
    if not row.url.startswith(("https://", "http://")):
        return ""
    return format_html('<a href="{}" rel="noopener noreferrer">{}</a>', row.url, row.url)


@admin.register(Account)
class AccountAdmin(PublisherAdmin):
    """Accounts; a page offers to schedule a post and to reconnect."""

    order = ("name", "id")
    search = "name"
    tabs = tuple(Tab(one.value, one.label, {"status": one}) for one in Account.Status)
    nothing = (_("There is no account yet"), _("Connect one on the page of a brand."))
    nouns = ("account",)
    audit_kind = "account"
    long = ("token", "refresh_token", "app_password")

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Account"), lambda row: row.name),
            Column(_("Channel"), lambda row: row.get_channel_display()),
            Column(_("Brand"), lambda row: row.tenant.removeprefix("brand:")),
        )

    def facts(self, request: HttpRequest, row: Account) -> Sequence[tuple[Any, Any]]:
        return [
            (_("Status"), row.get_status_display()),
            (_("Channel"), row.get_channel_display()),
            (_("Brand"), link_to(self.admin_site.name, "brand", row.brand_id, row.brand)),
            (_("Id at the provider"), row.remote_account),
            (_("Address"), row.base_url),
            (_("Longest text"), row.text_limit or ""),
            (_("Next free posting time"), _next_free(row)),
            (_("Token expires"), components.time_tag(row.expires_at) if row.expires_at else ""),
        ]

    def look(self, row: Account) -> str:
        return ACCOUNT_LOOKS[row.status]


def _next_free(row: Account) -> Any:
    """Return the next free posting time; nothing if the brand has none."""
    try:
        found = times.next_free(row)
    except Refused:
        return ""
    return f"{found.local[:16].replace('T', ' ')} {found.zone}"


def _panel(request: HttpRequest, job: jobs.Job) -> str:
    """Show the publication on the page of its job."""
    row = Publication.objects.select_related("account").filter(pk=job.pk).first()
    if row is None or not principal(request).may(verbs.VIEW):
        return ""
    link = link_to("admin", "publication", row.pk, row.account.name)
    return format_html("{}: {}", link, row.get_status_display())


register_panel("publisher.*", title=_("Publication"))(_panel)
