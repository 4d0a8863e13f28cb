"""API operations on companies: create, list, inspect, change."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status

from emailgw import services
from emailgw.api import company_of, section
from emailgw.companies import LIMIT_MAX
from emailgw.errors import Refused
from emailgw.models import Company
from emailgw.permissions import companies_of
from emailgw.problems import problem_of
from emailgw.verbs import VIEW_COMPANY
from jobs.api import In, auth, paging

InDoubt = Literal["park", "resend"]
_NAMES = {
    "replyDomains": "reply_domains", "inDoubt": "in_doubt", "perMinute": "per_minute",
    "perHour": "per_hour", "perDay": "per_day",
}  # fmt: skip


class CompanyChange(In):
    """Changes of a company; what is left out stays."""

    reason: str
    name: str | None = Field(None, max_length=150)
    sender: str | None = Field(None, max_length=254)
    domains: list[str] | None = Field(None, max_length=100)
    replyDomains: list[str] | None = Field(None, max_length=100)
    provider: str | None = Field(None, max_length=60)
    inDoubt: InDoubt | None = None
    perMinute: int | None = Field(None, ge=0, le=LIMIT_MAX)
    perHour: int | None = Field(None, ge=0, le=LIMIT_MAX)
    perDay: int | None = Field(None, ge=0, le=LIMIT_MAX)


class CompanyIn(CompanyChange):
    """A new company; without ``domains``, that of the sender counts as verified."""

    name: str = Field(max_length=150)
    sender: str = Field(max_length=254)


class CompanyOut(Schema):
    """A company. Its id is the tenant of its emails and their jobs."""

    id: UUID
    name: str
    isSuspended: bool
    sender: str
    domains: list[str]
    replyDomains: list[str]
    provider: str
    inDoubt: InDoubt
    perMinute: int
    perHour: int
    perDay: int
    createdAt: datetime


class CompanyPage(Schema):
    """A page of companies, newest first."""

    data: list[CompanyOut]
    page: paging.PageOut


@section.get("/email/companies", "email_company_list", needs=VIEW_COMPANY, answer=CompanyPage)
def email_company_list(
    request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]
) -> Any:
    """List companies, newest first."""
    companies = companies_of(auth.who(request))
    rows = Company.objects.all()
    rows = rows if companies is None else rows.filter(pk__in=companies)
    found = paging.page(request, response, rows, wanted)
    return {**found, "data": [_shown(row) for row in found["data"]]}


@section.post("/email/companies", "email_company_create",
    answer={201: CompanyOut}, verb="company.create",
)  # fmt: skip
def email_company_create(request: HttpRequest, body: CompanyIn) -> Any:
    try:
        made = services.create_company(**_given(body), by=auth.who(request))
    except Refused as error:
        raise _problem(error) from None
    return Status(201, _shown(Company.objects.get(pk=made.pk)))


@section.get("/email/companies/{uuid:company_id}", "email_company_get",
    needs=VIEW_COMPANY, answer=CompanyOut,
)  # fmt: skip
def email_company_get(request: HttpRequest, company_id: UUID) -> Any:
    """Get a company."""
    return _found(request, company_id)


@section.patch("/email/companies/{uuid:company_id}", "email_company_edit",
    answer=CompanyOut, verb="company.edit",
)  # fmt: skip
def email_company_edit(request: HttpRequest, company_id: UUID, body: CompanyChange) -> Any:
    try:
        services.edit_company(company_id, **_given(body), by=auth.who(request))
    except Refused as error:
        raise _problem(error) from None
    return _found(request, company_id)


def _given(body: CompanyChange) -> dict[str, Any]:
    asked = body.model_dump(exclude_none=True)
    return {_NAMES.get(name, name): value for name, value in asked.items()}


def _problem(error: Refused) -> Exception:
    """Return the problem, which names a field as the body does."""
    names = {name: field for field, name in _NAMES.items()}
    error.field = names.get(error.field, error.field)
    return problem_of(error)


def _found(request: HttpRequest, company_id: UUID) -> dict[str, Any]:
    try:
        return _shown(company_of(request, company_id))
    except Refused as error:
        raise problem_of(error) from None


def _shown(row: Company) -> dict[str, Any]:
    return {
        "id": row.pk, "name": row.name, "isSuspended": row.is_suspended,
        "sender": row.default_from, "domains": row.from_domains,
        "replyDomains": row.reply_domains, "provider": row.provider, "inDoubt": row.on_doubt,
        "perMinute": row.per_minute, "perHour": row.per_hour, "perDay": row.per_day,
        "createdAt": row.created_at,
    }  # fmt: skip
