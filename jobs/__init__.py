"""Background jobs that can be proved: rows in PostgreSQL, executed by RQ workers.

::

    class SendEmail(jobs.Payload, kind="email.send"):
        outbox_id: UUID

    @jobs.handler(SendEmail, queue="email", max_attempts=5, timeout=30)
    def send_email(ctx: jobs.Context, payload: SendEmail) -> None: ...

    jobs.enqueue(SendEmail(outbox_id=outbox.id))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jobs.context import Context
from jobs.errors import (
    ConfigError,
    DuplicateJob,
    EnqueueError,
    HandlerError,
    InvalidOption,
    InvalidPayload,
    JobsError,
    StaleClaim,
    UnknownKind,
)
from jobs.outcomes import RetryAfter, Snooze, Stopped, Unrecoverable
from jobs.payloads import Payload
from jobs.retry import Delays, Exponential, Fixed, Immediate, Linear
from jobs.states import DeadLetterState, JobState

if TYPE_CHECKING:
    from jobs.engine.intake import Draft, Enqueued, enqueue, enqueue_many
    from jobs.models import Attempt, DeadLetter, Job
    from jobs.registry import handler

# Django imports this package before models may be; these names are loaded when first used.
_LAZY = {
    "Attempt": "jobs.models",
    "DeadLetter": "jobs.models",
    "Draft": "jobs.engine.intake",
    "Enqueued": "jobs.engine.intake",
    "Job": "jobs.models",
    "enqueue": "jobs.engine.intake",
    "enqueue_many": "jobs.engine.intake",
    "handler": "jobs.registry",
}

__all__ = [
    "Attempt",
    "ConfigError",
    "Context",
    "DeadLetter",
    "DeadLetterState",
    "Delays",
    "Draft",
    "DuplicateJob",
    "EnqueueError",
    "Enqueued",
    "Exponential",
    "Fixed",
    "HandlerError",
    "Immediate",
    "InvalidOption",
    "InvalidPayload",
    "Job",
    "JobState",
    "JobsError",
    "Linear",
    "Payload",
    "RetryAfter",
    "Snooze",
    "StaleClaim",
    "Stopped",
    "UnknownKind",
    "Unrecoverable",
    "enqueue",
    "enqueue_many",
    "handler",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'jobs' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
