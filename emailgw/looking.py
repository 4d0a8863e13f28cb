"""Looking for emails, by what is indexed anywhere, by the rest among the newest ones."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from emailgw.documents import document_hash
from emailgw.models import OutboxEmail
from jobs.fields import index_of

SCAN = 20_000
"""How many emails are looked through for a status or a tag: the newest of the time asked for."""
NEWEST = ("-enqueued_at", "-id")
Rows = QuerySet[OutboxEmail]


def find(
    rows: Rows,
    *,
    status: str | None = None,
    in_doubt: bool | None = None,
    tag: str | None = None,
    external_id: str | None = None,
    recipient_external_id: str | None = None,
    since: datetime | None = None,
    before: datetime | None = None,
) -> Rows:
    """Those of the rows that fit all that is given; no query walks through the whole table."""
    exact = {
        "external_id": external_id, "recipient__external_id": recipient_external_id,
        "enqueued_at__gte": since, "enqueued_at__lt": before,
    }  # fmt: skip
    loose: dict[str, Any] = {
        "status": status, "in_doubt": in_doubt, "tags__contains": [tag] if tag else None
    }  # fmt: skip
    wanted = {name: value for name, value in loose.items() if value is not None}
    rows = rows.filter(**{name: value for name, value in exact.items() if value is not None})
    if wanted:
        rows = rows.model._default_manager.filter(
            pk__in=rows.order_by(*NEWEST).values("pk")[:SCAN]
        ).filter(**wanted)
    return rows


def to_address(rows: Rows, company: UUID, address: str) -> Rows:
    """Those of the company's to this address, by its keyed hash."""
    index = index_of(OutboxEmail, "to_index", address, company)
    return rows.filter(company_id=company, to_index=index)


def to_document(rows: Rows, company: UUID, number: str) -> Rows:
    """Those of the company's to whoever has this CPF or CNPJ, by its keyed hash."""
    hashed = document_hash(number, company)
    return rows.filter(company_id=company, recipient__cpf_cnpj_hash=hashed)
