"""Webhooks: to whom events are sent, and what became of each delivery."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status

from jobs.api import auth, conditional, paging, sight
from jobs.api.endpoints import In, Section
from jobs.api.schemas import WhyIn
from jobs.engine import sql
from jobs.models import Webhook
from jobs.operate import webhooks

section = Section("webhooks")
One = "/webhooks/{uuid:webhook_id}"
_MANAGE: dict[str, Any] = {"needs": "manage_webhook"}


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
    """A new secret, which is told once."""

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


class WebhookIn(In):
    """Where events go; the tenant is yours where none is named."""

    url: str = Field(min_length=1, max_length=2000)
    tenant: str | None = Field(None, max_length=120)
    topics: list[str] | None = Field(None, max_length=100)
    name: str = Field("", max_length=200)
    reason: str = Field(min_length=1, max_length=500)


class WebhookPatch(In):
    """What is to be another."""

    url: str | None = Field(None, min_length=1, max_length=2000)
    topics: list[str] | None = Field(None, max_length=100)
    name: str | None = Field(None, max_length=200)
    reason: str = Field(min_length=1, max_length=500)


class GoOnIn(WhyIn):
    """Whether what has waited is sent, or dropped."""

    drop: bool = False


class ResumedWebhookOut(Schema):
    """How many deliveries had waited."""

    waited: int


class NewSecretIn(WhyIn):
    """How long the old secret signs beside the new one."""

    overlap_ms: int = Field(86_400_000, ge=0, le=30 * 86_400_000)


class SentOut(Schema):
    """The delivery, and the job that sends it."""

    delivery_id: UUID
    job_id: UUID | None = None


def _told(row: Webhook) -> dict[str, Any]:
    return {name: getattr(row, name) for name in WebhookOut.model_fields}


@section.get("/webhooks", "webhook_list", needs="view_webhook", answer=list[WebhookOut])
def webhook_list(request: HttpRequest) -> Any:
    """Webhooks, by tenant and name."""
    return [_told(row) for row in webhooks.every(by=auth.who(request))]


@section.get(One, "webhook_get", needs="view_webhook", answer=WebhookOut)
def webhook_get(request: HttpRequest, response: HttpResponse, webhook_id: UUID) -> Any:
    """One webhook."""
    row = webhooks.find(webhook_id, by=auth.who(request))
    return conditional.fresh(request, response, conditional.tag(row)) or _told(row)


@section.post(
    "/webhooks", "webhook_create", answer={201: SecretOut}, verb="webhook.create",
    secret=("secret",), **_MANAGE,
)  # fmt: skip
def webhook_create(request: HttpRequest, response: HttpResponse, body: WebhookIn) -> Any:
    """The webhook is told of its tenant's events from now on; its secret is told once."""
    who = auth.who(request)
    given = body.model_dump()
    own = who.scope.tenants
    if body.tenant is None:
        given["tenant"] = next(iter(own)) if own is not None and len(own) == 1 else ""
    sight.check_tenant(who, given["tenant"])
    made = webhooks.create(by=who, **given)
    response["Location"] = f"{request.path}/{made.id}"
    return Status(201, made)


@section.patch(One, "webhook_edit", answer=WebhookOut, verb="webhook.edit", **_MANAGE)
def webhook_edit(request: HttpRequest, webhook_id: UUID, body: WebhookPatch) -> Any:
    """Other values; If-Match says which ones you have seen."""
    who = auth.who(request)
    sight.check(who, "webhook", webhook_id)
    rows = Webhook.objects.using(sql.alias()).select_for_update()
    conditional.check(request, rows.get(pk=webhook_id))
    return _told(webhooks.edit(webhook_id, by=who, **body.model_dump()))


@section.post(One + "/pause", "webhook_pause", answer=WebhookOut, verb="webhook.pause", **_MANAGE)
def webhook_pause(request: HttpRequest, webhook_id: UUID, body: WhyIn) -> Any:
    """Nothing is sent until somebody resumes it; deliveries wait."""
    return _told(webhooks.pause(webhook_id, by=auth.who(request), reason=body.reason))


@section.post(
    One + "/resume", "webhook_resume", answer=ResumedWebhookOut, verb="webhook.resume", **_MANAGE
)
def webhook_resume(request: HttpRequest, webhook_id: UUID, body: GoOnIn) -> Any:
    """A paused or disabled webhook goes on."""
    waited = webhooks.resume(
        webhook_id, by=auth.who(request), reason=body.reason, drop=body.drop
    )  # fmt: skip
    return {"waited": waited}


@section.post(
    One + "/rotate-secret", "webhook_rotate_secret", answer=SecretOut,
    verb="webhook.rotate_secret", secret=("secret",), **_MANAGE,
)  # fmt: skip
def webhook_rotate_secret(request: HttpRequest, webhook_id: UUID, body: NewSecretIn) -> Any:
    """A new secret, which is told once; the old one signs beside it for a while."""
    overlap = timedelta(milliseconds=body.overlap_ms)
    return webhooks.rotate_secret(
        webhook_id, by=auth.who(request), reason=body.reason, overlap=overlap
    )


@section.post(
    One + "/delete", "webhook_delete", answer={204: None}, verb="webhook.delete", **_MANAGE
)  # fmt: skip
def webhook_delete(request: HttpRequest, webhook_id: UUID, body: WhyIn) -> Any:
    """The webhook is gone with its deliveries."""
    webhooks.delete(webhook_id, by=auth.who(request), reason=body.reason)
    return Status(204, None)


@section.post(One + "/ping", "webhook_ping", answer={202: SentOut}, verb="webhook.ping", **_MANAGE)
def webhook_ping(request: HttpRequest, webhook_id: UUID, body: WhyIn) -> Any:
    """A delivery that says nothing is sent."""
    made = webhooks.ping(webhook_id, by=auth.who(request), reason=body.reason)
    return Status(202, {"delivery_id": made})


@section.get(
    One + "/deliveries", "webhook_deliveries", needs="view_webhook",
    answer=paging.Listed[DeliveryOut],
)  # fmt: skip
def webhook_deliveries(
    request: HttpRequest, response: HttpResponse, webhook_id: UUID, wanted: Query[paging.PageIn]
) -> Any:
    """What was sent or is to be, newest first."""
    row = webhooks.find(webhook_id, by=auth.who(request))
    return paging.page(request, response, row.deliveries.using(sql.alias()), wanted)


@section.post(
    "/webhook-deliveries/{uuid:delivery_id}/redeliver", "webhook_redeliver",
    answer={202: SentOut}, verb="webhook.redeliver", **_MANAGE,
)  # fmt: skip
def webhook_redeliver(request: HttpRequest, delivery_id: UUID, body: WhyIn) -> Any:
    """The delivery is sent once more, with its old event id."""
    made = webhooks.redeliver(delivery_id, by=auth.who(request), reason=body.reason)
    return Status(202, {"delivery_id": delivery_id, "job_id": made})
