"""API operations on emails: send, list, search, inspect, resend."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import AwareDatetime

from emailgw import queries, services
from emailgw.config import EMAIL_JOB_CONFIG
from emailgw.errors import Refused
from emailgw.models import Company, EmailEvent, EmailLog, OutboxEmail
from emailgw.permissions import companies_of
from emailgw.problems import PROBLEM_RESPONSE, problem_of, with_envelope
from emailgw.requests import EmailRequest, contract, parse
from jobs.api import In, Section, auth, paging
from jobs.fields import mask_email
from jobs.verbs import Principal, permissions

State = Literal[
    "ENQUEUED", "RECEIVED", "VALIDATED", "SENT_ATTEMPT", "SENT", "RETRY_SCHEDULED", "FAILED",
    "EXPIRED",
]  # fmt: skip
DEFAULT_TTL: int = EMAIL_JOB_CONFIG.DEFAULT_TTL
BODY_LIMIT = 2_500_000
"""Bytes of a request body: enough for 1 MiB of HTML as JSON, below Django's own limit."""
section = Section(
    "email",
    {"email": "/emails", "company": "/email/companies", "suppression": "/email/suppressions"},
    login=auth.default(),
    shape=with_envelope,
    key_form=services.KEY,
    extra={"responses": {"4XX": PROBLEM_RESPONSE}},
    translate=problem_of,
    is_camel=True,
)
_NAMES = {
    "externalId": "external_id", "recipientExternalId": "recipient_external_id",
    "inDoubt": "in_doubt", "dateFrom": "since", "dateTo": "before", "batchId": "batch",
}  # fmt: skip
_MOMENTS = {"enqueuedAt": "enqueued_at", "processedAt": "processed_at"}


class SendIn(In):
    """A request to send an email; errors in ``email`` name the field and never contain a value."""

    email: dict[str, Any] = Field(json_schema_extra=contract())
    priority: int = Field(5, json_schema_extra={"minimum": 1, "maximum": 10})
    """1 is the most urgent."""
    delay: int = Field(0, json_schema_extra={"minimum": 0})
    """Milliseconds."""
    ttl: int = Field(DEFAULT_TTL, json_schema_extra={"minimum": 1, "maximum": DEFAULT_TTL})
    """Milliseconds after which it expires, unless it is sent by then."""
    company: UUID | None = None
    """The sending company; optional for API keys of one company."""


class RecipientIdOut(Schema):
    """The recipient of an accepted email, as the sender knows it."""

    externalId: str | None = None


class SendOut(Schema):
    """An accepted email."""

    outboxId: UUID
    jobId: UUID
    requestId: str
    status: Literal["ENQUEUED"] = "ENQUEUED"
    receivedAt: datetime
    externalId: str | None = None
    recipient: RecipientIdOut


class EmailOut(Schema):
    """An email, with its recipient masked."""

    id: UUID
    company: UUID
    status: State
    to: str
    externalId: str | None
    tags: list[str]
    batchId: UUID | None
    provider: str
    messageId: str | None
    """The provider's id of the message, once it is sent."""
    attempts: int
    inDoubt: bool
    errorCode: str
    errorReason: str
    enqueuedAt: datetime
    processedAt: datetime | None
    requestId: str


class EmailPage(Schema):
    """A page of emails, newest first."""

    data: list[EmailOut]
    page: paging.PageOut


class EmailEventOut(Schema):
    """An entry of an email's history."""

    type: str
    at: datetime
    detail: dict[str, Any]


class EmailDetail(EmailOut):
    """An email with its history, and what its provider has reported."""

    durationMs: int | None
    """Duration of the last attempt, once the email has ended."""
    deliveredAt: datetime | None
    events: list[EmailEventOut]


class Filters(Schema):
    """Filters of the list; personal values are only accepted by the search, never in a URL."""

    status: State | None = None
    inDoubt: bool | None = None
    batchId: UUID | None = None
    tag: str | None = Field(None, pattern=r"^[A-Za-z0-9_-]{1,32}$")
    externalId: str | None = Field(None, min_length=1, max_length=64)
    recipientExternalId: str | None = Field(None, min_length=1, max_length=64)
    dateFrom: AwareDatetime | None = None
    """Enqueued at or after this time."""
    dateTo: AwareDatetime | None = None
    """Enqueued before this time."""


class Order(Schema):
    """The order of the list."""

    sort: Literal["enqueuedAt", "processedAt"] = "enqueuedAt"
    """`processedAt` lists only emails that have ended, the latest first."""


class SearchIn(In, Filters):
    """Filters of the search in one company; personal values are looked up by their keyed hash."""

    company: UUID | None = None
    to: str | None = Field(None, min_length=1, max_length=254)
    cpfCnpj: str | None = Field(None, min_length=11, max_length=20)
    razaoSocial: str | None = Field(None, min_length=1, max_length=150)
    """The whole name, in upper or lower case."""
    nome: str | None = Field(None, min_length=1, max_length=120)
    """The whole name, in upper or lower case."""
    limit: int = Field(50, ge=1, le=200)


class SearchOut(Schema):
    """The newest matching emails."""

    data: list[EmailOut]
    more: bool


@section.post("/email/send", "email_send", needs=permissions.ENQUEUE_JOB,
    answer={202: SendOut}, body_limit=BODY_LIMIT,
)  # fmt: skip
def email_send(request: HttpRequest, body: SendIn) -> Any:
    """Send an email."""
    try:
        email = parse(body.email)
    except Refused as error:
        raise problem_of(error.within("email")) from None
    try:
        # A refusal rolls back the transaction of the whole request.
        made = services.accept_within(
            Company(pk=_id_of(request, body.company)), email, by=auth.who(request),
            request_id=auth.who(request).request_id, priority=body.priority,
            delay=body.delay, ttl=body.ttl,
        )  # fmt: skip
    except Refused as error:
        is_of_email = error.field in EmailRequest.model_fields
        raise problem_of(error.within("email") if is_of_email else error) from None
    return Status(202, accepted_out(made))


def accepted_out(made: services.Accepted) -> dict[str, Any]:
    """Return the fields of SendOut."""
    return {
        "outboxId": made.outbox_id, "jobId": made.job_id, "requestId": made.request_id,
        "receivedAt": made.received_at, "externalId": made.external_id,
        "recipient": {"externalId": made.recipient_external_id},
    }  # fmt: skip


@section.get("/emails", "email_list", needs=permissions.VIEW_JOB, answer=EmailPage)
def email_list(
    request: HttpRequest,
    response: HttpResponse,
    filters: Query[Filters],
    order: Query[Order],
    wanted: Query[paging.PageIn],
) -> Any:
    """List emails, newest first."""
    asked = {**filters.model_dump(exclude_none=True), **order.model_dump()}
    rows = _narrowed(_seen(auth.who(request)), filters)
    if order.sort == "processedAt":
        rows = rows.filter(processed_at__isnull=False)
    moment = _MOMENTS[order.sort]
    found = paging.page(request, response, rows, wanted, moment=moment, filters=asked)
    return {**found, "data": [_shown(row) for row in found["data"]]}


@section.post(
    "/emails/search",
    "email_search",
    needs=permissions.VIEW_JOB,
    answer=SearchOut,
    keeps_answer=False,
)
def email_search(request: HttpRequest, body: SearchIn) -> Any:
    """Search a company's emails by address, name, CPF or CNPJ."""
    try:
        company = company_of(request, body.company)
    except Refused as error:
        raise problem_of(error) from None
    rows = _seen(auth.who(request)).filter(company=company)
    if body.to is not None:
        rows = queries.to_address(rows, company.pk, body.to)
    if body.cpfCnpj is not None:
        rows = queries.to_document(rows, company.pk, body.cpfCnpj)
    for column, name in (("razao_social", body.razaoSocial), ("nome", body.nome)):
        if name is not None:
            rows = queries.to_name(rows, company.pk, column, name)
    rows = _narrowed(rows, body)
    found = list(rows.order_by(*queries.NEWEST)[: body.limit + 1])
    return {"data": [_shown(row) for row in found[: body.limit]], "more": len(found) > body.limit}


@section.get(
    "/emails/{uuid:email_id}",
    "email_get",
    needs=permissions.VIEW_JOB,
    answer=EmailDetail,
)
def email_get(request: HttpRequest, email_id: UUID) -> Any:
    """Get an email with its history."""
    return _detail(auth.who(request), email_id)


def _detail(who: Principal, email_id: UUID, done: None = None) -> dict[str, Any]:
    row = _seen(who).filter(pk=email_id).first()
    if row is None:
        raise problem_of(Refused("NOT_FOUND", "there is no such email"))
    history = EmailEvent.objects.filter(outbox=row).order_by("id").values("type", "at", "detail")
    log = _log_of(row)
    return {
        **_shown(row), "durationMs": log.duration_ms,
        "deliveredAt": log.delivered_at, "events": list(history),
    }  # fmt: skip


section.does(
    "email.resend", "/emails/{uuid:email_id}/resend", "email_resend", answer=EmailDetail,
    show=_detail,
)  # fmt: skip


class RecipientOut(Schema):
    """The recipient of an email, unmasked."""

    to: str
    cc: list[str]
    bcc: list[str]
    subject: str
    nome: str
    razaoSocial: str
    cpfCnpj: str


def _revealed(who: Principal, email_id: UUID, found: services.Revealed) -> dict[str, Any]:
    return {
        "to": found.to, "cc": found.cc, "bcc": found.bcc, "subject": found.subject,
        "nome": found.nome, "razaoSocial": found.razao_social, "cpfCnpj": found.cpf_cnpj,
    }  # fmt: skip


section.does(
    "email.reveal",
    "/emails/{uuid:email_id}/reveal",
    "email_reveal",
    answer=RecipientOut,
    show=_revealed,
    secret=tuple(RecipientOut.model_fields),
)
for _verb in ("suspend", "admit"):
    section.does(
        f"company.{_verb}",
        f"/email/companies/{{uuid:company_id}}/{_verb}",
        f"email_company_{_verb}",
        answer={204: None},
    )


def company_of(request: HttpRequest, wanted: UUID | None) -> Company:
    """Return the requested company; raise NOT_FOUND if it is out of scope."""
    found = Company.objects.filter(pk=_id_of(request, wanted)).first()
    if found is None:
        raise Refused("NOT_FOUND", "there is no such company", "company")
    return found


def _id_of(request: HttpRequest, wanted: UUID | None) -> UUID:
    """Return the id of the requested company, if it is in scope."""
    companies = companies_of(auth.who(request))
    if wanted is None and companies is not None and len(companies) == 1:
        return companies[0]
    if wanted is None or (companies is not None and wanted not in companies):
        raise Refused("NOT_FOUND", "there is no such company", "company")
    return wanted


def _seen(who: Principal) -> Any:
    companies = companies_of(who)
    rows = OutboxEmail.objects.select_related("log")
    return rows if companies is None else rows.filter(company_id__in=companies)


def _narrowed(rows: queries.Rows, filters: Filters) -> queries.Rows:
    asked = filters.model_dump(exclude_none=True, include=set(Filters.model_fields))
    return queries.find(rows, **{_NAMES.get(n, n): value for n, value in asked.items()})


def _shown(row: OutboxEmail) -> dict[str, Any]:
    return {
        "id": row.pk, "company": row.company_id, "status": row.status, "to": mask_email(row.to),
        "externalId": row.external_id or None, "tags": row.tags, "batchId": row.batch_id,
        "provider": row.provider, "messageId": _log_of(row).provider_message_id,
        "attempts": row.attempts, "inDoubt": row.in_doubt,
        "errorCode": row.error_code, "errorReason": row.error_reason,
        "enqueuedAt": row.enqueued_at, "processedAt": row.processed_at,
        "requestId": row.request_id,
    }  # fmt: skip


def _log_of(row: OutboxEmail) -> EmailLog:
    return getattr(row, "log", None) or EmailLog()
