"""Filters of the list of emails, read from its URL."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from emailgw import addresses, queries
from emailgw.admin.base import within
from emailgw.models import Company, OutboxEmail, Status
from emailgw.permissions import as_uuid
from jobs.admin import Reason
from jobs.fields import index_of

NAMES = ("status", "external", "tag", "company", "from", "until", "to")
IN_DOUBT = "IN_DOUBT"
COMPANIES = 200
_INDEX = re.compile(r"[0-9a-f]{64}\Z")


class FindForm(Reason):
    """Form to find emails by address, which never appears in a URL."""

    email = forms.CharField(label=gettext_lazy("Address"), max_length=254)
    company = forms.ModelChoiceField(Company.objects.none(), label=gettext_lazy("Company"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["reason"]
        chosen: Any = self.fields["company"]
        chosen.queryset = within(self.request, Company.objects.order_by("name"), "id")

    def clean_email(self) -> str:
        given: str = self.cleaned_data["email"].strip().lower()
        if problem := addresses.address_problem(given):
            raise forms.ValidationError(problem)
        return given


def find(request: HttpRequest, row: Any, given: dict[str, Any]) -> HttpResponseRedirect:
    """Redirect to a company's emails to one address, identified by its keyed hash."""
    company = given["company"]
    index = index_of(OutboxEmail, "to_index", given["email"], company.pk)
    base = reverse("admin:emailgw_outboxemail_changelist")
    return HttpResponseRedirect(f"{base}?company={company.pk}&to={index}")


def given(request: HttpRequest) -> dict[str, str]:
    """Return the values of the filters in the URL."""
    return {name: request.GET.get(name, "").strip()[:254] for name in NAMES}


def narrowed(rows: queries.Rows, asked: dict[str, str]) -> queries.Rows:
    """Apply the filters; ignore invalid values."""
    if asked["company"]:
        company = as_uuid(asked["company"])
        rows = rows.filter(company_id=company) if company else rows.none()
    if _INDEX.match(asked["to"]):
        rows = rows.filter(to_index=asked["to"])
    status = asked["status"]
    return queries.find(
        rows,
        status=status if status in Status.values else None,
        in_doubt=True if status == IN_DOUBT else None,
        tag=asked["tag"] or None,
        external_id=asked["external"] or None,
        since=_day(asked["from"]),
        before=_day(asked["until"], days=1),
    )


def _day(text: str, days: int = 0) -> datetime | None:
    """Return the start of the day, plus a number of days."""
    try:
        found = date.fromisoformat(text) + timedelta(days=days)
    except (ValueError, OverflowError):
        return None
    return timezone.make_aware(datetime.combine(found, time()))


def companies(request: HttpRequest) -> list[Company]:
    """Return the companies to choose from."""
    return list(within(request, Company.objects.order_by("name"), "id")[:COMPANIES])
