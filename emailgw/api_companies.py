"""API operations on companies: create, list, inspect, change."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Schema

from emailgw.api import company_of, section
from emailgw.errors import Refused
from emailgw.models import Company
from emailgw.permissions import companies_of
from emailgw.problems import problem_of
from emailgw.verbs import VIEW_COMPANY
from jobs.api import auth, paging
from jobs.verbs import Principal


class CompanyOut(Schema):
    """A company. Its id is the tenant of its emails and their jobs."""

    id: UUID
    name: str
    isSuspended: bool
    sender: str
    domains: list[str]
    replyDomains: list[str]
    provider: str
    inDoubt: Literal["park", "resend"]
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


def _made(who: Principal, company_id: None, row: Company) -> dict[str, Any]:
    return _shown(Company.objects.get(pk=row.pk))


section.does(
    "company.create", "/email/companies", "email_company_create", answer={201: CompanyOut},
    show=_made,
)  # fmt: skip


@section.get("/email/companies/{uuid:company_id}", "email_company_get",
    needs=VIEW_COMPANY, answer=CompanyOut,
)  # fmt: skip
def email_company_get(request: HttpRequest, company_id: UUID) -> Any:
    """Get a company."""
    try:
        return _shown(company_of(request, company_id))
    except Refused as error:
        raise problem_of(error) from None


def _changed(who: Principal, company_id: UUID, done: None) -> dict[str, Any]:
    return _shown(Company.objects.get(pk=company_id))


section.does(
    "company.edit", "/email/companies/{uuid:company_id}", "email_company_edit", answer=CompanyOut,
    method="PATCH", show=_changed,
)  # fmt: skip


def _shown(row: Company) -> dict[str, Any]:
    return {
        "id": row.pk, "name": row.name, "isSuspended": row.is_suspended,
        "sender": row.default_from, "domains": row.from_domains,
        "replyDomains": row.reply_domains, "provider": row.provider, "inDoubt": row.on_doubt,
        "perMinute": row.per_minute, "perHour": row.per_hour, "perDay": row.per_day,
        "createdAt": row.created_at,
    }  # fmt: skip
