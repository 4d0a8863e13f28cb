"""Webhooks: to whom events are sent, and what became of each delivery."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Schema

from jobs.api import auth, conditional, paging
from jobs.api.sections import Section
from jobs.engine import sql
from jobs.models import Webhook
from jobs.operate import sight, webhooks
from jobs.operate.permissions import VIEW_WEBHOOK
from jobs.principals import Principal

section = Section("webhooks", {"webhook": "/webhooks"})
One = "/webhooks/{uuid:webhook_id}"


class WebhookOut(Schema):
    """A webhook, without its secrets."""

    id: UUID
    name: str
    tenant: str
    url: str
    topics: list[str]
    state: Literal["active", "paused", "disabled"]
    stopped_by: str
    stopped_reason: str
    stopped_at: datetime | None
    failures: int
    failing_since: datetime | None
    created_at: datetime
    created_by: str


class SecretOut(Schema):
    """A new secret, which is returned once."""

    id: UUID
    secret: str | None


class DeliveryOut(Schema):
    """An event on its way to a webhook; ``log`` are the answers, the last ones."""

    id: UUID
    event_id: UUID
    topic: str
    key: str
    sequence: int
    state: Literal["waiting", "held", "delivered", "failed", "dropped"]
    job_id: UUID | None
    tries: int
    log: list[Any]
    created_at: datetime
    closed_at: datetime | None


class ResumedWebhookOut(Schema):
    """How many deliveries had waited."""

    waited: int


class SentOut(Schema):
    """The delivery, and the job that sends it."""

    delivery_id: UUID
    job_id: UUID | None = None


def _told(row: Webhook) -> dict[str, Any]:
    return {name: getattr(row, name) for name in WebhookOut.model_fields}


@section.get("/webhooks", "webhook_list", needs=VIEW_WEBHOOK, answer=list[WebhookOut])
def webhook_list(request: HttpRequest) -> Any:
    """Webhooks, by tenant and name."""
    return [_told(row) for row in webhooks.every(by=auth.who(request))]


@section.get(One, "webhook_get", needs=VIEW_WEBHOOK, answer=WebhookOut)
def webhook_get(request: HttpRequest, response: HttpResponse, webhook_id: UUID) -> Any:
    """One webhook."""
    row = webhooks.find(webhook_id, by=auth.who(request))
    return conditional.fresh(request, response, conditional.tag(row)) or _told(row)


section.does(
    "webhook.create",
    "/webhooks",
    "webhook_create",
    answer={201: SecretOut},
    secret=("secret",),
    location="/webhooks/{id}",
    show=lambda who, webhook_id, made: made,
)


def _own(who: Principal, webhook_id: UUID) -> Webhook:
    sight.check(who, "webhook", webhook_id)
    return Webhook.objects.using(sql.alias()).get(pk=webhook_id)


section.does(
    "webhook.edit",
    One,
    "webhook_edit",
    answer=WebhookOut,
    locked=_own,
    show=lambda who, webhook_id, row: _told(row),
)


section.does(
    "webhook.pause",
    One + "/pause",
    "webhook_pause",
    answer=WebhookOut,
    show=lambda who, webhook_id, row: _told(row),
)


section.does(
    "webhook.resume",
    One + "/resume",
    "webhook_resume",
    answer=ResumedWebhookOut,
    show=lambda who, webhook_id, waited: {"waited": waited},
)


section.does(
    "webhook.rotate_secret",
    One + "/rotate-secret",
    "webhook_rotate_secret",
    answer=SecretOut,
    secret=("secret",),
    show=lambda who, webhook_id, made: made,
)


section.does(
    "webhook.delete",
    One + "/delete",
    "webhook_delete",
    answer={204: None},
)


section.does(
    "webhook.ping",
    One + "/ping",
    "webhook_ping",
    answer={202: SentOut},
    show=lambda who, webhook_id, made: {"delivery_id": made},
)


@section.get(
    One + "/deliveries", "webhook_deliveries", needs=VIEW_WEBHOOK,
    answer=paging.Listed[DeliveryOut],
)  # fmt: skip
def webhook_deliveries(
    request: HttpRequest, response: HttpResponse, webhook_id: UUID, wanted: Query[paging.PageIn]
) -> Any:
    """What was sent or is to be, newest first."""
    row = webhooks.find(webhook_id, by=auth.who(request))
    return paging.page(request, response, row.deliveries.using(sql.alias()), wanted)


section.does(
    "webhook.redeliver",
    "/webhook-deliveries/{uuid:delivery_id}/redeliver",
    "webhook_redeliver",
    answer={202: SentOut},
    show=lambda who, delivery_id, job_id: {"delivery_id": delivery_id, "job_id": job_id},
)
