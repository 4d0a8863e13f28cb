"""The addresses to which nothing is sent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from emailgw.clock import Now
from emailgw.models import Suppression
from jobs.fields import index_of, normalise_email

FIND = """SELECT s.email_index FROM emailgw_suppression s WHERE s.email_index = ANY($3::text[])
    AND (s.company_id = c.id OR s.company_id IS NULL)
    AND (s.expires_at IS NULL OR s.expires_at > jobs_clock())"""
"""Those of the indexes ``$3`` to which the company ``c`` may not send now."""


def indexes(addresses: Iterable[str]) -> dict[str, str]:
    """The addresses by their indexes, under which entries are found."""
    return {index_of(Suppression, "email_index", address): address for address in addresses}


def suppressed(company: UUID, addresses: Iterable[str]) -> set[str]:
    """Those of the addresses to which this company may not send now."""
    by_index = indexes(addresses)
    found = Suppression.objects.filter(
        Q(company=company) | Q(company=None),
        Q(expires_at=None) | Q(expires_at__gt=Now()),
        email_index__in=list(by_index),
    )
    return {by_index[index] for index in found.values_list("email_index", flat=True)}


def of(company: UUID | None) -> QuerySet[Suppression]:
    """The entries of a company; without one, those that hold for everybody."""
    if company is None:
        return Suppression.objects.filter(company=None)
    return Suppression.objects.filter(company_id=company)


def suppress(
    company: UUID | None, address: str, reason: str, *, by: str, note: str = "",
    until: datetime | None = None,
) -> Suppression:  # fmt: skip
    """Nothing is sent to the address; what lasts longer stays."""
    address = normalise_email(address)
    index = index_of(Suppression, "email_index", address)
    fresh = Suppression(
        company_id=company, email=address, reason=reason, note=note, by=by, expires_at=until
    )
    with transaction.atomic():
        made = of(company).select_for_update(no_key=True).filter(email_index=index).first()
        if made is None:
            Suppression.objects.bulk_create([fresh], ignore_conflicts=True)
            return of(company).get(email_index=index)
    is_longer = made.expires_at is not None and (until is None or until > made.expires_at)
    if is_longer:
        made.reason, made.note, made.by, made.expires_at = reason, note, by, until
        made.save(update_fields=["reason", "note", "by", "expires_at"])
    return made


def lift(company: UUID | None, address: str) -> bool:
    """The address is written to again; whether it was not."""
    index = index_of(Suppression, "email_index", normalise_email(address))
    gone, _ = of(company).filter(email_index=index).delete()
    return bool(gone)
