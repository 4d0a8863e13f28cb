"""The way of an email: the machine of the outbox's status, and what is told of each move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jobs
from emailgw import telling
from emailgw.models import EmailEvent, OutboxEmail, Status

OPEN = (
    Status.ENQUEUED,
    Status.RECEIVED,
    Status.VALIDATED,
    Status.SENT_ATTEMPT,
    Status.RETRY_SCHEDULED,
)
UNSENT = (*OPEN, Status.FAILED, Status.EXPIRED)


UNTOLD = (Status.SENT_ATTEMPT, Status.FAILED, Status.EXPIRED)
"""Where an email may be found of which it turns out that it was sent."""
STARTED = (Status.RECEIVED, Status.VALIDATED, Status.SENT_ATTEMPT)
"""What an email goes through once all four validations hold."""


def _announce(moves: Sequence[jobs.Moved]) -> None:
    """The moves are in the email's story, and who has to know is told, in the same transaction."""
    told = [(moved, _detail(moved)) for moved in moves]
    EmailEvent.objects.bulk_create(
        EmailEvent(outbox_id=moved.pk, type=moved.to, source=moved.by, detail=detail)
        for moved, detail in told
    )
    for moved, detail in told:
        if moved.to in telling.TOPICS:
            row: Any = moved.instance or OutboxEmail.objects.get(pk=moved.pk)
            telling.tell_move(row, moved.to, detail)


def _detail(moved: jobs.Moved) -> dict[str, Any]:
    detail: dict[str, Any] = {"from": moved.source}
    for name, key in (("attempts", "attempt"), ("error_code", "code"), ("error_reason", "reason")):
        if moved.fields.get(name):
            detail[key] = moved.fields[name]
    return detail


outbox = jobs.machine(
    OutboxEmail,
    "status",
    [
        jobs.Edge("receive", UNSENT, Status.RECEIVED, "a worker has its job"),
        jobs.Edge("validate", Status.RECEIVED, Status.VALIDATED, "all four validations hold"),
        jobs.Edge("attempt", Status.VALIDATED, Status.SENT_ATTEMPT, "before it is handed over"),
        jobs.Edge(
            "send", UNTOLD, Status.SENT, "the provider has it"
        ),
        jobs.Edge(
            "retry", [Status.ENQUEUED, *OPEN[1:4]], Status.RETRY_SCHEDULED, "it is tried again"
        ),
        jobs.Edge("fail", OPEN, Status.FAILED, "it is not tried again"),
        jobs.Edge("expire", OPEN, Status.EXPIRED, "its time is over"),
        jobs.Edge("resend", [Status.FAILED, Status.EXPIRED], Status.ENQUEUED, "a person says so"),
    ],
    on_moves=_announce,
)  # fmt: skip
