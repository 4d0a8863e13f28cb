"""The gateway for programs: hand emails in, see what became of them, send them again."""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema, Status
from pydantic import AwareDatetime

from emailgw import looking, services
from emailgw.errors import Refused
from emailgw.models import Company, EmailEvent, OutboxEmail
from emailgw.people import companies_of
from emailgw.problems import TOLD, problem_of, shaped
from emailgw.requests import contract
from jobs.api import In, auth, paging
from jobs.api import operation as _operation
from jobs.fields import mask_email

router = Router(tags=["email"], auth=auth.default())
State = Literal[
    "ENQUEUED", "RECEIVED", "VALIDATED", "SENT_ATTEMPT", "SENT", "RETRY_SCHEDULED", "FAILED",
    "EXPIRED",
]  # fmt: skip
BODY_LIMIT = 2_500_000
"""Bytes of a body: a content of 1 MiB as JSON writes it, below Django's own limit."""
operation = functools.partial(_operation, shape=shaped, extra={"responses": {"4XX": TOLD}})
_NAMES = {
    "externalId": "external_id", "recipientExternalId": "recipient_external_id",
    "inDoubt": "in_doubt", "dateFrom": "since", "dateTo": "before",
}  # fmt: skip


class SendIn(In):
    """An email; ``email`` is checked by the gateway's own rules, which never quote a value."""

    email: dict[str, Any] = Field(json_schema_extra=contract())
    priority: int = Field(5, json_schema_extra={"minimum": 1, "maximum": 10})
    """1 is the most urgent."""
    delay: int = Field(0, json_schema_extra={"minimum": 0})
    """Milliseconds."""
    company: UUID | None = None
    """Whose it is; may be left out by keys of one company."""


class SendOut(Schema):
    """An accepted email."""

    outboxId: UUID
    jobId: UUID
    requestId: str
    status: Literal["ENQUEUED"] = "ENQUEUED"
    receivedAt: datetime
    externalId: str | None = None


class EmailOut(Schema):
    """An email, with its recipient masked."""

    id: UUID
    company: UUID
    status: State
    to: str
    tags: list[str]
    attempts: int
    inDoubt: bool
    errorCode: str
    errorReason: str
    enqueuedAt: datetime
    processedAt: datetime | None
    requestId: str


class EmailPage(Schema):
    """Some emails, newest first."""

    data: list[EmailOut]
    page: paging.PageOut


class EmailEventOut(Schema):
    """One line of an email's story."""

    type: str
    at: datetime
    detail: dict[str, Any]


class EmailDetail(EmailOut):
    """An email with its story."""

    events: list[EmailEventOut]


class ResendIn(In):
    """Why it is sent again."""

    reason: str
    evenIfSent: bool = False


class Filters(Schema):
    """Which emails; what is personal is asked for by a search, whose words are in no address."""

    status: State | None = None
    inDoubt: bool | None = None
    tag: str | None = Field(None, pattern=r"^[A-Za-z0-9_-]{1,32}$")
    externalId: str | None = Field(None, min_length=1, max_length=64)
    recipientExternalId: str | None = Field(None, min_length=1, max_length=64)
    dateFrom: AwareDatetime | None = None
    """From then on, …"""
    dateTo: AwareDatetime | None = None
    """… and before then."""


class SearchIn(In, Filters):
    """Which emails of one company; personal values are looked up by their keyed hashes."""

    company: UUID | None = None
    to: str | None = Field(None, min_length=1, max_length=254)
    cpfCnpj: str | None = Field(None, min_length=11, max_length=20)
    limit: int = Field(50, ge=1, le=200)


class SearchOut(Schema):
    """The newest of the emails."""

    data: list[EmailOut]
    more: bool


@operation(
    router, "POST", "/email/send", "email_send", needs="enqueue_job",
    answer={202: SendOut}, body_limit=BODY_LIMIT,
)  # fmt: skip
def email_send(request: HttpRequest, body: SendIn) -> Any:
    """Hands an email in."""
    try:
        # Whatever is refused here takes the request's whole transaction back.
        made = services.accept_within(
            Company(pk=_id_of(request, body.company)), body.email, by=auth.who(request),
            request_id=auth.who(request).request_id, priority=body.priority, delay=body.delay,
        )  # fmt: skip
    except Refused as error:
        raise problem_of(error, "/email/") from None
    told = {
        "outboxId": made.outbox_id, "jobId": made.job_id, "requestId": made.request_id,
        "receivedAt": made.received_at, "externalId": made.external_id,
    }  # fmt: skip
    return Status(202, told)


@operation(router, "GET", "/emails", "email_list", needs="view_job", answer=EmailPage)
def email_list(
    request: HttpRequest,
    response: HttpResponse,
    filters: Query[Filters],
    wanted: Query[paging.PageIn],
) -> Any:
    """Emails, newest first."""
    asked = filters.model_dump(exclude_none=True)
    rows = _narrowed(_seen(request), filters)
    found = paging.page(request, response, rows, wanted, moment="enqueued_at", filters=asked)
    return {**found, "data": [_shown(row) for row in found["data"]]}


@operation(router, "POST", "/emails/search", "email_search", needs="view_job", answer=SearchOut)
def email_search(request: HttpRequest, body: SearchIn) -> Any:
    """The newest emails of a company to an address, or to whoever has a CPF or CNPJ."""
    try:
        company = company_of(request, body.company)
    except Refused as error:
        raise problem_of(error) from None
    rows = _seen(request).filter(company=company)
    if body.to is not None:
        rows = looking.to_address(rows, company.pk, body.to)
    if body.cpfCnpj is not None:
        rows = looking.to_document(rows, company.pk, body.cpfCnpj)
    rows = _narrowed(rows, body)
    found = list(rows.order_by(*looking.NEWEST)[: body.limit + 1])
    return {"data": [_shown(row) for row in found[: body.limit]], "more": len(found) > body.limit}


@operation(
    router, "GET", "/emails/{uuid:email_id}", "email_get", needs="view_job", answer=EmailDetail
)
def email_get(request: HttpRequest, email_id: UUID) -> Any:
    """One email with its story."""
    return _detail(request, email_id)


def _detail(request: HttpRequest, email_id: UUID) -> dict[str, Any]:
    row = _seen(request).filter(pk=email_id).first()
    if row is None:
        raise problem_of(Refused("NOT_FOUND", "there is no such email"))
    story = EmailEvent.objects.filter(outbox=row).order_by("id").values("type", "at", "detail")
    return {**_shown(row), "events": list(story)}


@operation(
    router, "POST", "/emails/{uuid:email_id}/resend", "email_resend", needs="retry_job",
    answer=EmailDetail,
)  # fmt: skip
def email_resend(request: HttpRequest, email_id: UUID, body: ResendIn) -> Any:
    """Sends a failed or expired email again, in its own row."""
    try:
        services.resend(
            email_id, by=auth.who(request), reason=body.reason, even_if_sent=body.evenIfSent
        )
    except Refused as error:
        raise problem_of(error) from None
    return _detail(request, email_id)


def company_of(request: HttpRequest, wanted: UUID | None) -> Company:
    """The company for which is asked; one out of scope does not exist."""
    found = Company.objects.filter(pk=_id_of(request, wanted)).first()
    if found is None:
        raise Refused("NOT_FOUND", "there is no such company", "company")
    return found


def _id_of(request: HttpRequest, wanted: UUID | None) -> UUID:
    """The id of the company for which is asked, if it is in scope."""
    companies = companies_of(auth.who(request))
    if wanted is None and companies is not None and len(companies) == 1:
        return companies[0]
    if wanted is None or (companies is not None and wanted not in companies):
        raise Refused("NOT_FOUND", "there is no such company", "company")
    return wanted


def _seen(request: HttpRequest) -> Any:
    companies = companies_of(auth.who(request))
    rows = OutboxEmail.objects.all()
    return rows if companies is None else rows.filter(company_id__in=companies)


def _narrowed(rows: looking.Rows, filters: Filters) -> looking.Rows:
    asked = filters.model_dump(exclude_none=True, include=set(Filters.model_fields))
    return looking.find(rows, **{_NAMES.get(n, n): value for n, value in asked.items()})


def _shown(row: OutboxEmail) -> dict[str, Any]:
    return {
        "id": row.pk, "company": row.company_id, "status": row.status, "to": mask_email(row.to),
        "tags": row.tags, "attempts": row.attempts, "inDoubt": row.in_doubt,
        "errorCode": row.error_code, "errorReason": row.error_reason,
        "enqueuedAt": row.enqueued_at, "processedAt": row.processed_at,
        "requestId": row.request_id,
    }  # fmt: skip
