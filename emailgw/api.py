"""The gateway for programs: hand emails in, see what became of them, send them again."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema, Status

from emailgw import services
from emailgw.errors import Refused
from emailgw.models import Company, EmailEvent, OutboxEmail
from jobs.api import In, Problem, auth, operation, paging
from jobs.fields import mask_email

router = Router(tags=["email"], auth=auth.default())
State = Literal[
    "ENQUEUED", "RECEIVED", "VALIDATED", "SENT_ATTEMPT", "SENT", "RETRY_SCHEDULED", "FAILED",
    "EXPIRED",
]  # fmt: skip
_STATUS = {
    "BAD_REQUEST": 400, "FORBIDDEN": 403, "NOT_FOUND": 404, "CONFLICT": 409,
    "PAYLOAD_TOO_LARGE": 413, "VALIDATION_ERROR": 422, "RATE_LIMIT_EXCEEDED": 429,
}  # fmt: skip


class SendIn(In):
    """An email; ``email`` is checked by the gateway's own rules, which never quote a value."""

    email: dict[str, Any]
    priority: int = 5
    delay: int = 0
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


class EventOut(Schema):
    """One line of an email's story."""

    type: str
    at: datetime
    detail: dict[str, Any]


class EmailDetail(EmailOut):
    """An email with its story."""

    events: list[EventOut]


class ResendIn(In):
    """Why it is sent again."""

    reason: str
    evenIfSent: bool = False


class Filters(Schema):
    """Which emails."""

    status: State | None = None
    tag: str | None = None


@operation(router, "POST", "/email/send", "email_send", needs="enqueue_job", answer={202: SendOut})
def email_send(request: HttpRequest, body: SendIn) -> Any:
    """Hands an email in."""
    try:
        made = services.accept(
            _company(request, body.company), body.email, by=auth.who(request),
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
    rows = _seen(request)
    if filters.status:
        rows = rows.filter(status=filters.status)
    if filters.tag:
        rows = rows.filter(tags__contains=[filters.tag])
    asked = filters.model_dump(exclude_none=True)
    found = paging.page(request, response, rows, wanted, moment="enqueued_at", filters=asked)
    return {**found, "data": [_shown(row) for row in found["data"]]}


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


def problem_of(error: Refused, prefix: str = "/") -> Problem:
    """The refusal as a problem, with the gateway's own code as ``error``."""
    status = _STATUS[error.code]
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else None
    code = error.code.lower().replace("_", "-")
    pointer = prefix + error.field.replace(".", "/") if error.field else ""
    return Problem(status, code, error.message, pointer=pointer, headers=headers, error=error.code)


def _company(request: HttpRequest, wanted: UUID | None) -> Company:
    """The company for which is asked; one out of scope does not exist."""
    tenants = auth.who(request).scope.tenants
    if wanted is None and tenants is not None and len(tenants) == 1:
        [only] = tenants
        found = Company.objects.filter(pk=only).first()
    else:
        found = None if wanted is None else Company.objects.filter(pk=wanted).first()
    if found is None or (tenants is not None and str(found.pk) not in tenants):
        raise Refused("NOT_FOUND", "there is no such company", "company")
    return found


def _seen(request: HttpRequest) -> Any:
    tenants = auth.who(request).scope.tenants
    rows = OutboxEmail.objects.all()
    return rows if tenants is None else rows.filter(company_id__in=sorted(tenants))


def _shown(row: OutboxEmail) -> dict[str, Any]:
    return {
        "id": row.pk, "company": row.company_id, "status": row.status, "to": mask_email(row.to),
        "tags": row.tags, "attempts": row.attempts, "inDoubt": row.in_doubt,
        "errorCode": row.error_code, "errorReason": row.error_reason,
        "enqueuedAt": row.enqueued_at, "processedAt": row.processed_at,
        "requestId": row.request_id,
    }  # fmt: skip
