"""Enqueueing operations."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Schema, Status

from jobs.api import In, auth
from jobs.verbs import permissions
from operations.api.problems import refusals_as_problems
from operations.api.scope import visible
from operations.api.section import section
from operations.services import accept

BODY_LIMIT = 1_000_000


class OperationEnqueueIn(In):
    """A request for an operation."""

    type: str
    data: dict[str, Any] = Field(default_factory=dict)
    idempotencyKey: str = ""
    agent: str = ""
    """The agent to act for; optional for its own user or key."""


class OperationEnqueueOut(Schema):
    """An accepted operation."""

    success: bool
    jobId: UUID
    deduplicated: bool


@section.post("/operations/enqueue", "operation_enqueue", needs=permissions.ENQUEUE_JOB,
    answer={202: OperationEnqueueOut}, body_limit=BODY_LIMIT)  # fmt: skip
def operation_enqueue(request: HttpRequest, body: OperationEnqueueIn) -> Any:
    """Enqueue an operation; the same request again returns the first one."""
    visible(request)
    with refusals_as_problems():
        made = accept.enqueue(
            body.type, body.data, by=auth.who(request), agent=body.agent,
            idempotency_key=body.idempotencyKey,
        )  # fmt: skip
    return Status(202, {"success": True, "jobId": made.id, "deduplicated": made.deduplicated})
