"""For programs: many emails at once, previews, and the suppression list."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status

from emailgw import services
from emailgw.api import BODY_LIMIT, SendOut, company_of, operation, router
from emailgw.errors import Refused
from emailgw.models import Suppression
from emailgw.people import companies_of
from emailgw.problems import problem_of
from emailgw.requests import contract
from jobs.api import In, auth, paging
from jobs.fields import mask_email


class EmailBatchIn(In):
    """Emails that are handed in together."""

    emails: list[dict[str, Any]] = Field(
        min_length=1, max_length=services.BATCH_LIMIT, json_schema_extra={"items": contract()}
    )
    priority: int = 5
    company: UUID | None = None


class EmailItemOut(Schema):
    """What became of one of them."""

    accepted: SendOut | None = None
    code: str = ""
    field: str = ""
    message: str = ""


class EmailBatchOut(Schema):
    """The batch, in the order of its emails."""

    batchId: UUID
    accepted: int
    refused: int
    items: list[EmailItemOut]


class BatchState(Schema):
    """How far a batch is."""

    batchId: UUID
    status: Literal["PROCESSING", "COMPLETED", "PARTIAL", "FAILED"]


class EmailPreviewIn(In):
    """A content."""

    html: str


class EmailPreviewOut(Schema):
    """A document, and the policy that it must be shown with."""

    document: str
    policy: str


class SuppressIn(In):
    """An address to which nothing is to be sent."""

    email: str
    reason: str
    until: datetime | None = None
    company: UUID | None = None


class LiftIn(In):
    """Why the address is written to again."""

    reason: str


class SuppressionOut(Schema):
    """An entry of the list, masked."""

    id: UUID
    company: UUID | None
    email: str
    reason: str
    since: datetime
    until: datetime | None


class SuppressionPage(Schema):
    """Some entries, newest first."""

    data: list[SuppressionOut]
    page: paging.PageOut


@operation(
    router, "POST", "/email/batches", "email_batch_send", needs="enqueue_job",
    answer={202: EmailBatchOut}, body_limit=BODY_LIMIT,
)  # fmt: skip
def email_batch_send(request: HttpRequest, body: EmailBatchIn) -> Any:
    """Hands many emails in: each is accepted or refused by itself."""
    who = auth.who(request)
    try:
        made = services.accept_many(
            company_of(request, body.company), body.emails, by=who, request_id=who.request_id,
            priority=body.priority,
        )  # fmt: skip
    except Refused as error:
        raise problem_of(error) from None
    items = [_item(item) for item in made.items]
    good = sum(item["accepted"] is not None for item in items)
    told = {"batchId": made.id, "accepted": good, "refused": len(items) - good, "items": items}
    return Status(202, told)


def _item(item: services.Item) -> dict[str, Any]:
    made, error = item.accepted, item.refused
    if error is not None:
        return {
            "accepted": None,
            "code": error.code,
            "field": error.field,
            "message": error.message,
        }
    return {} if made is None else {
        "accepted": {
            "outboxId": made.outbox_id, "jobId": made.job_id, "requestId": made.request_id,
            "receivedAt": made.received_at, "externalId": made.external_id,
        }
    }  # fmt: skip


@operation(
    router, "GET", "/email/batches/{uuid:batch_id}", "email_batch_get", needs="view_job",
    answer=BatchState,
)  # fmt: skip
def email_batch_get(request: HttpRequest, batch_id: UUID, company: UUID | None = None) -> Any:
    """How far a batch is."""
    try:
        status = services.batch_status(company_of(request, company), batch_id)
    except Refused as error:
        raise problem_of(error) from None
    return {"batchId": batch_id, "status": status}


@operation(
    router, "POST", "/email/preview", "email_preview", needs="enqueue_job", answer=EmailPreviewOut,
    body_limit=BODY_LIMIT,
)  # fmt: skip
def email_preview(request: HttpRequest, body: EmailPreviewIn) -> Any:
    """What would be sent of a content; nothing in it loads or runs."""
    try:
        made = services.preview(body.html)
    except Refused as error:
        raise problem_of(error) from None
    return {"document": made.document, "policy": made.policy}


@operation(
    router, "GET", "/email/suppressions", "email_suppression_list",
    needs="emailgw.view_suppression", answer=SuppressionPage,
)  # fmt: skip
def email_suppression_list(
    request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]
) -> Any:
    """The suppression list, newest first."""
    found = paging.page(request, response, _entries(request), wanted)
    return {**found, "data": [_entry(row) for row in found["data"]]}


@operation(
    router, "POST", "/email/suppressions", "email_suppression_add",
    needs="emailgw.change_suppression", answer={201: SuppressionOut}, verb="suppression.add",
)  # fmt: skip
def email_suppression_add(request: HttpRequest, body: SuppressIn) -> Any:
    """Nothing is sent to the address any more."""
    try:
        company = company_of(request, body.company)
        made = services.add_suppression(
            company.pk, body.email.strip().lower(), by=auth.who(request), reason=body.reason,
            until=body.until,
        )  # fmt: skip
    except Refused as error:
        raise problem_of(error) from None
    return Status(201, _entry(Suppression.objects.get(pk=made.pk)))


@operation(
    router, "POST", "/email/suppressions/{uuid:entry_id}/lift", "email_suppression_lift",
    needs="emailgw.change_suppression", answer={204: None}, verb="suppression.lift",
)  # fmt: skip
def email_suppression_lift(request: HttpRequest, entry_id: UUID, body: LiftIn) -> Any:
    """The address is written to again."""
    try:
        row = _entries(request).filter(pk=entry_id).first()
        if row is None:
            raise Refused("NOT_FOUND", "there is no such entry")
        services.lift_suppression(
            row.company_id, row.email, by=auth.who(request), reason=body.reason
        )
    except Refused as error:
        raise problem_of(error) from None
    return Status(204, None)


def _entries(request: HttpRequest) -> Any:
    companies = companies_of(auth.who(request))
    rows = Suppression.objects.all()
    return rows if companies is None else rows.filter(company_id__in=companies)


def _entry(row: Suppression) -> dict[str, Any]:
    return {
        "id": row.pk, "company": row.company_id, "email": mask_email(row.email),
        "reason": row.reason, "since": row.created_at, "until": row.expires_at,
    }  # fmt: skip
