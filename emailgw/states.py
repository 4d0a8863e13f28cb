"""The way of an email: the machine of the outbox's status, and what is told of each move."""

from __future__ import annotations

from typing import Any

import jobs
from emailgw.models import EmailEvent, OutboxEmail, Status

TOPICS = {
    Status.SENT: "email.sent",
    Status.FAILED: "email.failed",
    Status.RETRY_SCHEDULED: "email.retry_scheduled",
    Status.EXPIRED: "email.expired",
}
"""What others are told of; every move is an event of the email's own story."""
OPEN = (
    Status.ENQUEUED,
    Status.RECEIVED,
    Status.VALIDATED,
    Status.SENT_ATTEMPT,
    Status.RETRY_SCHEDULED,
)
UNSENT = (*OPEN, Status.FAILED, Status.EXPIRED)


def _announce(moved: jobs.Moved) -> None:
    """The move is in the email's story, and who has to know is told, in the same transaction."""
    detail: dict[str, Any] = {"from": moved.source}
    for name, key in (("attempts", "attempt"), ("error_code", "code"), ("error_reason", "reason")):
        if moved.fields.get(name):
            detail[key] = moved.fields[name]
    EmailEvent.objects.create(
        outbox_id=moved.pk, type=moved.to, source=moved.by, detail=detail
    )  # fmt: skip
    topic = TOPICS.get(Status(moved.to))
    if topic is not None:
        company = OutboxEmail.objects.values_list("company_id", flat=True).get(pk=moved.pk)
        payload = {"outboxId": moved.pk, "status": moved.to, **detail}
        jobs.emit(topic, payload, key=f"email:{moved.pk}", tenant=str(company))


outbox = jobs.machine(
    OutboxEmail,
    "status",
    [
        jobs.Edge("receive", UNSENT, Status.RECEIVED, "a worker has its job"),
        jobs.Edge("validate", Status.RECEIVED, Status.VALIDATED, "all four validations hold"),
        jobs.Edge("attempt", Status.VALIDATED, Status.SENT_ATTEMPT, "before it is handed over"),
        jobs.Edge(
            "send", [Status.SENT_ATTEMPT, Status.FAILED, Status.EXPIRED], Status.SENT,
            "the provider has it",
        ),
        jobs.Edge(
            "retry", [Status.ENQUEUED, *OPEN[1:4]], Status.RETRY_SCHEDULED, "it is tried again"
        ),
        jobs.Edge("fail", OPEN, Status.FAILED, "it is not tried again"),
        jobs.Edge("expire", OPEN, Status.EXPIRED, "its time is over"),
        jobs.Edge("resend", [Status.FAILED, Status.EXPIRED], Status.ENQUEUED, "a person says so"),
    ],
    on_move=_announce,
)  # fmt: skip
