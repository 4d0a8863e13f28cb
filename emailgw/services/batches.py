"""Many emails at once: each is accepted or refused by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count

from emailgw import states
from emailgw.errors import Refused
from emailgw.models import Company, EmailBatch, OutboxEmail, Status
from emailgw.requests import EmailRequest
from emailgw.services.acceptance import Accepted, accept

if TYPE_CHECKING:
    from jobs.acts import By

BATCH_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Item:
    """What became of one email of a batch."""

    accepted: Accepted | None = None
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class BatchAccepted:
    """The batch and its emails, in the order in which they were handed in."""

    id: UUID
    items: tuple[Item, ...]


def accept_many(
    company: Company,
    requests: Sequence[Mapping[str, Any] | EmailRequest],
    *,
    by: By,
    request_id: str = "",
    **options: Any,
) -> BatchAccepted:
    """Those of the emails that may be sent wait to be sent, in one transaction."""
    if not 1 <= len(requests) <= BATCH_LIMIT:
        raise Refused("VALIDATION_ERROR", f"must be 1 to {BATCH_LIMIT} emails", "emails")
    items: list[Item] = []
    with transaction.atomic():
        batch = EmailBatch.objects.create(company=company)
        for request in requests:
            try:
                with transaction.atomic():
                    made = accept(
                        company, request, by=by, request_id=request_id, batch=batch, **options
                    )
                items.append(Item(made))
            except Refused as error:
                items.append(Item(refused=error))
        batch.accepted = sum(item.accepted is not None for item in items)
        batch.refused = len(items) - batch.accepted
        batch.save(update_fields=["accepted", "refused"])
    return BatchAccepted(batch.pk, tuple(items))


def batch_status(company: Company, batch_id: UUID) -> str:
    """PROCESSING, COMPLETED, PARTIAL or FAILED; raises Refused where there is no such batch."""
    batch = EmailBatch.objects.filter(pk=batch_id, company=company).first()
    if batch is None:
        raise Refused("NOT_FOUND", "there is no such batch")
    found: dict[str, int] = dict(
        OutboxEmail.objects.filter(batch=batch).values_list("status").annotate(n=Count("id"))
    )
    if any(found.get(status) for status in states.OPEN):
        return "PROCESSING"
    sent = found.get(Status.SENT, 0)
    if sent == 0:
        return "FAILED"
    return "COMPLETED" if sent == sum(found.values()) and not batch.refused else "PARTIAL"
