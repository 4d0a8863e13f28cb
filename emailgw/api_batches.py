"""API operations on batches of emails, and the preview of HTML."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Schema, Status

from emailgw import services
from emailgw.api import BODY_LIMIT, SendOut, accepted_out, company_of, section
from emailgw.errors import Refused
from emailgw.problems import problem_of
from emailgw.requests import contract
from jobs.api import In, auth
from jobs.verbs import permissions


class EmailBatchIn(In):
    """A request to send several emails."""

    emails: list[dict[str, Any]] = Field(
        min_length=1, max_length=services.BATCH_LIMIT, json_schema_extra={"items": contract()}
    )
    priority: int = 5
    company: UUID | None = None


class EmailItemOut(Schema):
    """The result of one email of a batch."""

    accepted: SendOut | None = None
    code: str = ""
    field: str = ""
    message: str = ""


class EmailBatchOut(Schema):
    """The results of a batch, in the order of its emails."""

    batchId: UUID
    accepted: int
    refused: int
    items: list[EmailItemOut]


class BatchState(Schema):
    """The progress of a batch."""

    batchId: UUID
    status: Literal["PROCESSING", "COMPLETED", "PARTIAL", "FAILED"]
    accepted: int
    refused: int
    waiting: int
    """Accepted emails that are neither sent nor given up."""
    sent: int
    failed: int
    expired: int


class EmailPreviewIn(In):
    """HTML to preview."""

    html: str


class EmailPreviewOut(Schema):
    """A document, and the Content-Security-Policy to show it with."""

    document: str
    policy: str


@section.post("/email/batches", "email_batch_send", needs=permissions.ENQUEUE_JOB,
    answer={202: EmailBatchOut}, body_limit=BODY_LIMIT,
)  # fmt: skip
def email_batch_send(request: HttpRequest, body: EmailBatchIn) -> Any:
    """Send several emails; each is accepted or refused on its own."""
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
    result = {"batchId": made.id, "accepted": good, "refused": len(items) - good, "items": items}
    return Status(202, result)


def _item(item: services.Item) -> dict[str, Any]:
    made, error = item.accepted, item.refused
    if error is not None:
        return {
            "accepted": None,
            "code": error.code,
            "field": error.field,
            "message": error.message,
        }
    return {} if made is None else {"accepted": accepted_out(made)}


@section.get("/email/batches/{uuid:batch_id}", "email_batch_get", needs=permissions.VIEW_JOB,
    answer=BatchState,
)  # fmt: skip
def email_batch_get(request: HttpRequest, batch_id: UUID, company: UUID | None = None) -> Any:
    """Get the progress of a batch."""
    try:
        found = services.batch_progress(company_of(request, company), batch_id)
    except Refused as error:
        raise problem_of(error) from None
    return {"batchId": batch_id, "status": found.status, **asdict(found)}


@section.post("/email/preview", "email_preview", needs=permissions.ENQUEUE_JOB,
    answer=EmailPreviewOut,
    body_limit=BODY_LIMIT,
    keeps_answer=False,
)  # fmt: skip
def email_preview(request: HttpRequest, body: EmailPreviewIn) -> Any:
    """Preview the sanitised HTML of an email."""
    try:
        made = services.preview(body.html)
    except Refused as error:
        raise problem_of(error) from None
    return {"document": made.document, "policy": made.policy}
