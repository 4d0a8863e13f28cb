"""The state machine of an email's status, and the events of each transition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from emailgw import events, metrics
from emailgw.models import EmailEvent, OutboxEmail, Status
from jobs.machines import Edge, Moved, machine

OPEN = (
    Status.ENQUEUED,
    Status.RECEIVED,
    Status.VALIDATED,
    Status.SENT_ATTEMPT,
    Status.RETRY_SCHEDULED,
)
UNSENT = (*OPEN, Status.FAILED, Status.EXPIRED)
CONFIRMABLE = (Status.SENT_ATTEMPT, Status.FAILED, Status.EXPIRED)
"""States of an email that may turn out to have been sent."""
STARTED = (Status.RECEIVED, Status.VALIDATED, Status.SENT_ATTEMPT)
"""States that an email passes through once it is valid."""


def _record(moves: Sequence[Moved]) -> None:
    """Add the transitions to the email's history and publish them, in the same transaction."""
    transitions = [(moved, _detail(moved)) for moved in moves]
    EmailEvent.objects.bulk_create(
        EmailEvent(outbox_id=moved.pk, type=moved.to, source=moved.by, detail=detail)
        for moved, detail in transitions
    )
    for moved, detail in transitions:
        if moved.to in events.TOPICS:
            row: Any = moved.instance or OutboxEmail.objects.get(pk=moved.pk)
            events.publish_transition(row, moved.to, detail)
    transaction.on_commit(lambda: _measure(moves))


def _measure(moves: Sequence[Moved]) -> None:
    for moved in moves:
        if moved.to in (Status.SENT, Status.FAILED, Status.EXPIRED):
            error = str(moved.fields.get("error_code", ""))
            metrics.ended.inc(status=moved.to, error=error)


def _detail(moved: Moved) -> dict[str, Any]:
    detail: dict[str, Any] = {"from": moved.source}
    for name, key in (("attempts", "attempt"), ("error_code", "code"), ("error_reason", "reason")):
        if moved.fields.get(name):
            detail[key] = moved.fields[name]
    return detail


outbox = machine(
    OutboxEmail,
    "status",
    [
        Edge("receive", UNSENT, Status.RECEIVED, "a worker runs its job"),
        Edge("validate", Status.RECEIVED, Status.VALIDATED, "all four validations hold"),
        Edge("attempt", Status.VALIDATED, Status.SENT_ATTEMPT, "right before it is sent"),
        Edge("send", CONFIRMABLE, Status.SENT, "the provider accepted it"),
        Edge("retry", OPEN[:4], Status.RETRY_SCHEDULED, "it will be retried"),
        Edge("fail", OPEN, Status.FAILED, "it will not be retried"),
        Edge("expire", OPEN, Status.EXPIRED, "its ttl has passed"),
        Edge("resend", [Status.FAILED, Status.EXPIRED], Status.ENQUEUED, "a user resends it"),
    ],
    on_moves=_record,
)
