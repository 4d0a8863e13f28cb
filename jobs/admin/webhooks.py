"""Webhooks: who receives what, what came of it, and what to do about it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Reason, site_of
from jobs.admin.base import PlatformAdmin, as_uuid
from jobs.admin.components import duration, pretty
from jobs.admin.copying import api, cli
from jobs.admin.fields import HOUR, LINES, Words
from jobs.admin.jobforms import told_once
from jobs.admin.recent import recent_acts
from jobs.engine import sql
from jobs.errors import UnknownTarget
from jobs.models import Webhook, WebhookDelivery
from jobs.operate import webhooks
from jobs.operate.permissions import VIEW_PAYLOAD, VIEW_WEBHOOK
from jobs.operate.shown import public_data

SHOWN = 50


class EndpointForm(Reason):
    """Where to, and of which events."""

    field_order = ("url", "name", "topics", "tenant")
    words = {
        "url": Words(gettext_lazy("URL")),
        "name": Words(gettext_lazy("Name"), empty=""),
        "topics": Words(
            gettext_lazy("Topics"),
            gettext_lazy("Like order.* or jobs.job.failed; empty means every topic."),
            widget=LINES, empty=("*",),
        ),
        "tenant": Words(
            gettext_lazy("Tenant"),
            gettext_lazy("The tenant of the events; * means every tenant, and administrators."),
        ),
    }  # fmt: skip


class ChangeForm(EndpointForm):
    of_row = True


class ResumeForm(Reason):
    words = {"drop": Words(gettext_lazy("Drop what waits instead of sending it"))}


class RotateForm(Reason):
    words = {"overlap": Words(gettext_lazy("Hours for which both secrets sign"), unit=HOUR)}


def _tell(request: HttpRequest, row: Webhook | None, made: webhooks.Made) -> HttpResponse:
    url = reverse(f"{site_of(request)}:jobs_webhook_changelist")
    words = _("Copy it now: the receiver checks signatures with it.")
    return told_once(request, _("Secret of the webhook"), "", made.secret, url, words)


def _gone(request: HttpRequest, row: Webhook, found: None) -> tuple[str, str]:
    return _("The webhook is gone."), reverse(f"{site_of(request)}:jobs_webhook_changelist")


def _is_active(request: HttpRequest, row: Webhook) -> str:
    return "" if row.state == "active" else _("It is stopped already.")


def _is_stopped(request: HttpRequest, row: Webhook) -> str:
    return _("It is not stopped.") if row.state == "active" else ""


@admin.register(Webhook)
class WebhookAdmin(PlatformAdmin):
    """Addresses of others that receive events."""

    list_template = "jobs/admin/webhooks.html"
    page_template = "jobs/admin/webhook.html"
    nouns = ("webhook",)
    list_acts = (
        Act("new", gettext_lazy("New webhook…"), show=_tell, form=EndpointForm,
            tone="primary", verb="webhook.create", submit=gettext_lazy("Create"),
            consequences=lambda r, w: [_("Its secret is shown once, on the next page.")]),
    )  # fmt: skip
    acts = (
        Act("ping", gettext_lazy("Ping…"), verb="webhook.ping", many=True,
            done=gettext_lazy("A test event is on its way.")),
        Act("edit", gettext_lazy("Edit…"), form=ChangeForm,
            done=gettext_lazy("The webhook is changed."),
            verb="webhook.edit", submit=gettext_lazy("Save"),
            consequences=lambda r, w: [_("Deliveries that wait go to the new address.")]),
        Act("rotate", gettext_lazy("New secret…"), show=_tell, form=RotateForm,
            verb="webhook.rotate_secret",
            consequences=lambda r, w: [_("The new secret is shown once, on the next page.")]),
        Act("pause", gettext_lazy("Pause…"), forbidden=_is_active,
            done=gettext_lazy("The webhook is paused."), verb="webhook.pause", many=True,
            consequences=lambda r, w: [_("What comes meanwhile waits.")]),
        Act("resume", gettext_lazy("Resume…"), forbidden=_is_stopped,
            done=gettext_lazy("The webhook is resumed."), form=ResumeForm, tone="primary",
            verb="webhook.resume", many=True),
        Act("delete", gettext_lazy("Delete…"), show=_gone, tone="danger",
            consequences=lambda r, w: [_("Nothing more is sent there; what waits is dropped.")],
            verb="webhook.delete", many=True),
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

    view_permission = VIEW_WEBHOOK
    page_template = "jobs/admin/delivery.html"
    acts = (
        Act("redeliver", gettext_lazy("Send again…"), done=gettext_lazy("It is sent again."),
            tone="primary", verb="webhook.redeliver",
            consequences=lambda r, d: [_("The receiver must handle duplicates.")]),
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
        sees = not missing(request, VIEW_PAYLOAD)
        return {
            "title": row.topic,
            "d": row,
            "hook": reverse(f"{self.admin_site.name}:jobs_webhook_change", args=[row.webhook_id]),
            "payload": pretty(public_data(row.data)) if sees else None,
            "no_payload": missing(request, VIEW_PAYLOAD),
            "tries": [_try(one) for one in reversed(public_data(row.log) or [])],
            "buttons": self.buttons(request, row, row.pk),
        }
