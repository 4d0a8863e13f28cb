"""The suppression list: addresses that receive no email."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from emailgw.clock import Now
from emailgw.models import Suppression
from jobs.fields import index_of, normalise_email


def indexes(addresses: Iterable[str]) -> dict[str, str]:
    """Return the addresses, keyed by their blind index."""
    return {index_of(Suppression, "email_index", address): address for address in addresses}


def suppressed(company: UUID, addresses: Iterable[str]) -> set[str]:
    """Return which of the addresses are suppressed for this company now."""
    by_index = indexes(addresses)
    found = Suppression.objects.filter(
        Q(company=company) | Q(company=None),
        Q(expires_at=None) | Q(expires_at__gt=Now()),
        email_index__in=list(by_index),
    )
    return {by_index[index] for index in found.values_list("email_index", flat=True)}


def of(company: UUID | None) -> QuerySet[Suppression]:
    """Return the entries of a company; ``None`` means the entries that apply to all companies."""
    if company is None:
        return Suppression.objects.filter(company=None)
    return Suppression.objects.filter(company_id=company)


def listed(company: UUID | None) -> QuerySet[Suppression]:
    """Return the entries of a company as in ``of``, newest first."""
    return of(company).order_by("-created_at", "id")


def suppress(
    company: UUID | None, address: str, reason: str, *, by: str, note: str = "",
    until: datetime | None = None,
) -> Suppression:  # fmt: skip
    """Suppress an address; an entry that lasts longer is kept."""
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
    """Remove an address from the list; return whether it was on it."""
    index = index_of(Suppression, "email_index", normalise_email(address))
    gone, _ = of(company).filter(email_index=index).delete()
    return bool(gone)
