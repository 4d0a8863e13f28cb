"""Queries for emails: indexed filters search every row, the others only the newest rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from emailgw.documents import document_hash
from emailgw.models import OutboxEmail, Recipient
from jobs.fields import index_of

SCAN = 20_000
"""How many of the newest emails are scanned for a status or a tag."""
NEWEST = ("-enqueued_at", "-id")
Rows = QuerySet[OutboxEmail]


def find(
    rows: Rows,
    *,
    status: str | None = None,
    in_doubt: bool | None = None,
    tag: str | None = None,
    batch: UUID | None = None,
    external_id: str | None = None,
    recipient_external_id: str | None = None,
    since: datetime | None = None,
    before: datetime | None = None,
) -> Rows:
    """Return the rows that match every filter, without scanning the whole table."""
    indexed = {
        "batch": batch, "external_id": external_id,
        "enqueued_at__gte": since, "enqueued_at__lt": before,
    }  # fmt: skip
    scanned: dict[str, Any] = {
        "status": status, "in_doubt": in_doubt, "tags__contains": [tag] if tag else None
    }  # fmt: skip
    wanted = {name: value for name, value in scanned.items() if value is not None}
    rows = rows.filter(**{name: value for name, value in indexed.items() if value is not None})
    if recipient_external_id is not None:
        rows = rows.filter(recipient__in=_recipients(recipient_external_id))
    if wanted:
        rows = rows.model._default_manager.filter(
            pk__in=rows.order_by(*NEWEST).values("pk")[:SCAN]
        ).filter(**wanted)
    return rows


def _recipients(external_id: str) -> QuerySet[Recipient]:
    """Return every row of the recipient: one for each address it has had."""
    return Recipient.objects.filter(Q(external_id=external_id) | Q(former_external_id=external_id))


def to_address(rows: Rows, company: UUID, address: str) -> Rows:
    """Return the company's emails to this address, found by its keyed hash."""
    index = index_of(OutboxEmail, "to_index", address, company)
    return rows.filter(company_id=company, to_index=index)


def to_document(rows: Rows, company: UUID, number: str) -> Rows:
    """Return the company's emails to this CPF or CNPJ, found by its keyed hash."""
    hashed = document_hash(number, company)
    return rows.filter(company_id=company, recipient__cpf_cnpj_hash=hashed)


def to_name(rows: Rows, company: UUID, column: str, name: str) -> Rows:
    """Return the company's emails to recipients of this name, found by its keyed hash."""
    index = index_of(Recipient, f"{column}_index", name, company)
    return rows.filter(company_id=company, **{f"recipient__{column}_index": index})
