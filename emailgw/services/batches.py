"""Batches: several emails at once, each accepted or refused on its own."""

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
    """The result of one email of a batch."""

    accepted: Accepted | None = None
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class BatchAccepted:
    """A batch and its results, in the order of its emails."""

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
    """Accept or refuse each email, in one transaction."""
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


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a batch is: how many of its emails were accepted, and what became of those."""

    accepted: int
    refused: int
    waiting: int
    """Neither sent nor given up."""
    sent: int
    failed: int
    expired: int

    @property
    def status(self) -> str:
        """PROCESSING, COMPLETED, PARTIAL or FAILED."""
        if self.waiting:
            return "PROCESSING"
        if self.sent == 0:
            return "FAILED"
        return "PARTIAL" if self.failed or self.expired or self.refused else "COMPLETED"


def batch_progress(company: Company, batch_id: UUID) -> BatchProgress:
    """Return how far the batch is; raise Refused if it is unknown."""
    batch = EmailBatch.objects.filter(pk=batch_id, company=company).first()
    if batch is None:
        raise Refused("NOT_FOUND", "there is no such batch")
    found: dict[str, int] = dict(
        OutboxEmail.objects.filter(batch=batch).values_list("status").annotate(n=Count("id"))
    )
    return BatchProgress(
        accepted=batch.accepted,
        refused=batch.refused,
        waiting=sum(found.get(status, 0) for status in states.OPEN),
        sent=found.get(Status.SENT, 0),
        failed=found.get(Status.FAILED, 0),
        expired=found.get(Status.EXPIRED, 0),
    )
