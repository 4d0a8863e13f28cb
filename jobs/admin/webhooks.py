"""Webhooks: who is told of what, what came of it, and what to do about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Reason, site_of
from jobs.admin.apikeys import Lines
from jobs.admin.base import PlatformAdmin, as_uuid
from jobs.admin.components import duration, pretty
from jobs.admin.copying import api, cli
from jobs.admin.jobforms import told_once
from jobs.admin.recent import recent_acts
from jobs.engine import sql
from jobs.errors import UnknownTarget
from jobs.models import Webhook, WebhookDelivery
from jobs.operate import webhooks
from jobs.operate.shown import public_data

SHOWN = 50


class EndpointForm(Reason):
    """Where to, and of which events."""

    url = forms.CharField(label=gettext_lazy("URL"), max_length=2000)
    name = forms.CharField(label=gettext_lazy("Name"), required=False, max_length=100)
    topics = Lines(
        label=gettext_lazy("Topics"),
        help_text=gettext_lazy("Like order.* or jobs.job.failed; empty means every topic."),
    )


class NewForm(EndpointForm):
    tenant = forms.CharField(label=gettext_lazy("Tenant"), required=False, max_length=200)


class ChangeForm(EndpointForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["url"].initial, self.fields["name"].initial = self.row.url, self.row.name
        self.fields["topics"].initial = "\n".join(self.row.topics)


class ResumeForm(Reason):
    drop = forms.BooleanField(
        label=gettext_lazy("Drop what waits instead of sending it"), required=False
    )


class RotateForm(Reason):
    hours = forms.IntegerField(
        label=gettext_lazy("Hours for which both secrets sign"), initial=24, min_value=0,
        max_value=720,
    )  # fmt: skip


def _create(request: HttpRequest, row: Any, given: dict[str, Any]) -> HttpResponse:
    return _tell(request, webhooks.create(
        given["url"], by=principal(request), reason=given["reason"], tenant=given["tenant"],
        topics=given["topics"], name=given["name"],
    ))  # fmt: skip


def _rotate(request: HttpRequest, row: Webhook, given: dict[str, Any]) -> HttpResponse:
    return _tell(request, webhooks.rotate_secret(
        row.pk, by=principal(request), reason=given["reason"],
        overlap=timedelta(hours=given["hours"]),
    ))  # fmt: skip


def _tell(request: HttpRequest, made: webhooks.Made) -> HttpResponse:
    url = reverse(f"{site_of(request)}:jobs_webhook_changelist")
    words = _("Copy it now: whoever receives checks signatures with it.")
    return told_once(request, _("Secret of the webhook"), "", made.secret, url, words)


def _edit(request: HttpRequest, row: Webhook, given: dict[str, Any]) -> str:
    webhooks.edit(row.pk, by=principal(request), reason=given["reason"], url=given["url"],
                  topics=given["topics"] or [], name=given["name"])  # fmt: skip
    return _("The webhook is changed.")


def _pause(request: HttpRequest, row: Webhook, given: dict[str, Any]) -> str:
    webhooks.pause(row.pk, by=principal(request), reason=given["reason"])
    return _("The webhook is paused.")


def _resume(request: HttpRequest, row: Webhook, given: dict[str, Any]) -> str:
    webhooks.resume(row.pk, by=principal(request), reason=given["reason"], drop=given["drop"])
    return _("The webhook goes on.")


def _ping(request: HttpRequest, row: Webhook, given: dict[str, Any]) -> str:
    webhooks.ping(row.pk, by=principal(request), reason=given["reason"])
    return _("A test event is on its way.")


def _delete(request: HttpRequest, row: Webhook, given: dict[str, Any]) -> tuple[str, str]:
    webhooks.delete(row.pk, by=principal(request), reason=given["reason"])
    return _("The webhook is gone."), reverse(f"{site_of(request)}:jobs_webhook_changelist")


def _redeliver(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    webhooks.redeliver(row.pk, by=principal(request), reason=given["reason"])
    return _("It is sent again.")


def _is_active(request: HttpRequest, row: Webhook) -> str:
    return "" if row.state == "active" else _("It is stopped already.")


def _is_stopped(request: HttpRequest, row: Webhook) -> str:
    return _("It is not stopped.") if row.state == "active" else ""


@admin.register(Webhook)
class WebhookAdmin(PlatformAdmin):
    """Addresses of others that are told of events."""

    list_template = "jobs/admin/webhooks.html"
    page_template = "jobs/admin/webhook.html"
    list_acts = (
        Act("new", gettext_lazy("New webhook…"), "manage_webhook", _create, form=NewForm,
            tone="primary", verb="webhook.create", submit=gettext_lazy("Create"),
            consequences=lambda r, w: [_("Its secret is shown once, on the next page.")]),
    )  # fmt: skip
    acts = (
        Act("ping", gettext_lazy("Ping…"), "manage_webhook", _ping, verb="webhook.ping"),
        Act("edit", gettext_lazy("Edit…"), "manage_webhook", _edit, form=ChangeForm,
            verb="webhook.edit", submit=gettext_lazy("Save"),
            consequences=lambda r, w: [_("What waits goes to the new address.")]),
        Act("rotate", gettext_lazy("New secret…"), "manage_webhook", _rotate, form=RotateForm,
            verb="webhook.rotate_secret",
            consequences=lambda r, w: [_("The new secret is shown once, on the next page.")]),
        Act("pause", gettext_lazy("Pause…"), "manage_webhook", _pause, _is_active,
            lambda r, w: [_("What comes meanwhile waits.")], verb="webhook.pause"),
        Act("resume", gettext_lazy("Resume…"), "manage_webhook", _resume, _is_stopped,
            form=ResumeForm, tone="primary", verb="webhook.resume"),
        Act("delete", gettext_lazy("Delete…"), "manage_webhook", _delete, tone="danger",
            consequences=lambda r, w: [_("Nothing more is sent there; what waits is dropped.")],
            verb="webhook.delete"),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        found = webhooks.every(by=principal(request))
        return {
            "title": _("Webhooks"),
            "rows": [{"w": w, "url": self.page_url(w.pk), "state": _look(w.state),
                      "buttons": self.buttons(request, w, w.pk)} for w in found],
            "list_buttons": self.list_buttons(request),
            "api": api("webhook_list"),
            "cli": cli("webhooks", "list"),
        }  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        wanted = as_uuid(key)
        try:
            return webhooks.find(wanted, by=principal(request)) if wanted else None
        except UnknownTarget:
            return None

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        found = webhooks.deliveries(row.pk, by=principal(request), limit=SHOWN)
        name = f"{self.admin_site.name}:jobs_webhookdelivery_change"
        return {
            "w": row,
            "state": _look(row.state),
            "buttons": self.buttons(request, row, row.pk),
            "deliveries": [
                {"d": d, "url": reverse(name, args=[d.pk]), "last": _last(d)} for d in found
            ],
            "acts": recent_acts(request, self.admin_site.name, target_kind="webhook",
                                target_id=str(row.pk)),
            "api": api("webhook_get", row.pk),
        }  # fmt: skip


def _look(state: str) -> str:
    return state if state == "active" else "paused"


def _last(row: WebhookDelivery) -> dict[str, Any]:
    """What came of its last try."""
    log = public_data(row.log) or []
    return _try(log[-1]) if log else {}


def _try(one: dict[str, Any]) -> dict[str, Any]:
    """A try as the page of its delivery shows it."""
    status, at = one.get("status"), one.get("at")
    return {
        "number": one.get("try", ""),
        "at": parse_datetime(at) if isinstance(at, str) else None,
        "status": status,
        "bad": not (isinstance(status, int) and 200 <= status < 300),
        "took": duration(one["ms"] / 1000) if isinstance(one.get("ms"), int | float) else "—",
        "problem": one.get("problem") or "",
        "answer": one.get("answer") or "",
    }


@admin.register(WebhookDelivery)
class DeliveryAdmin(PlatformAdmin):
    """One event on its way to one address."""

    view_permission = "view_webhook"
    page_template = "jobs/admin/delivery.html"
    acts = (
        Act("redeliver", gettext_lazy("Send again…"), "manage_webhook", _redeliver,
            tone="primary", verb="webhook.redeliver",
            consequences=lambda r, d: [_("Whoever receives must bear it twice.")]),
    )  # fmt: skip

    def has_module_permission(self, request: HttpRequest) -> bool:
        return False  # reached from its webhook

    def crumbs(self) -> list[tuple[str, str]]:
        whole, _own = super().crumbs()
        url = reverse(f"{self.admin_site.name}:jobs_webhook_changelist")
        return [whole, (url, _("Webhooks"))]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """There is no list of all: each webhook has its own."""
        self.check_view(request)
        return HttpResponseRedirect(self.crumbs()[1][0])

    def find(self, request: HttpRequest, key: str) -> Any:
        wanted = as_uuid(key)
        if wanted is None:
            return None
        row = WebhookDelivery.objects.using(sql.alias()).filter(pk=wanted).first()
        try:
            return webhooks.find(row.webhook_id, by=principal(request)) and row if row else None
        except UnknownTarget:
            return None

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        sees = not missing(request, "view_payload")
        return {
            "title": row.topic,
            "d": row,
            "hook": reverse(f"{self.admin_site.name}:jobs_webhook_change", args=[row.webhook_id]),
            "payload": pretty(public_data(row.data)) if sees else None,
            "no_payload": missing(request, "view_payload"),
            "tries": [_try(one) for one in reversed(public_data(row.log) or [])],
            "buttons": self.buttons(request, row, row.pk),
        }
