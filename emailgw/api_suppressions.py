"""API operations on the suppression list."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import AwareDatetime

from emailgw import services
from emailgw.api import company_of, section
from emailgw.errors import Refused
from emailgw.models import Suppression
from emailgw.permissions import companies_of
from emailgw.problems import problem_of
from emailgw.verbs import VIEW_SUPPRESSION, Address, OfCompany
from jobs.api import In, auth, paging
from jobs.fields import mask_email


class LiftIn(In):
    """The reason to remove an address from the list."""

    reason: str = Field(min_length=1, max_length=500)


class SuppressIn(LiftIn):
    """An address to suppress."""

    email: Address
    until: AwareDatetime | None = None
    company: OfCompany = None
    """May be omitted by callers of a single company, which is meant then."""


class SuppressionOut(Schema):
    """An entry of the suppression list, masked."""

    id: UUID
    company: UUID | None
    email: str
    reason: str
    since: datetime
    until: datetime | None


class SuppressionPage(Schema):
    """A page of entries, newest first."""

    data: list[SuppressionOut]
    page: paging.PageOut


@section.get("/email/suppressions", "email_suppression_list",
    needs=VIEW_SUPPRESSION, answer=SuppressionPage,
)  # fmt: skip
def email_suppression_list(
    request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]
) -> Any:
    """List suppressed addresses, newest first."""
    found = paging.page(request, response, _entries(request), wanted)
    return {**found, "data": [_entry(row) for row in found["data"]]}


@section.post("/email/suppressions", "email_suppression_add",
    answer={201: SuppressionOut}, verb="suppression.add",
)  # fmt: skip
def email_suppression_add(request: HttpRequest, body: SuppressIn) -> Any:
    try:
        company = company_of(request, body.company)
        made = services.add_suppression(
            company.pk, body.email, by=auth.who(request), reason=body.reason,
            until=body.until,
        )  # fmt: skip
    except Refused as error:
        raise problem_of(error) from None
    return Status(201, _entry(Suppression.objects.get(pk=made.pk)))


@section.post("/email/suppressions/{uuid:entry_id}/lift", "email_suppression_lift",
    answer={204: None}, verb="suppression.lift",
)  # fmt: skip
def email_suppression_lift(request: HttpRequest, entry_id: UUID, body: LiftIn) -> Any:
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
