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

from jobs.backoff import Delays, Exponential, Fixed, Immediate, Linear
from jobs.context import Context
from jobs.effects import Happened, Intent, NotHappened, Unknown
from jobs.endings import Ended, ended
from jobs.errors import (
    BreakerError,
    Changed,
    ConfigError,
    Denied,
    DuplicateJob,
    EffectError,
    EnqueueError,
    EventError,
    FeedGone,
    HandlerError,
    IllegalMove,
    InvalidOption,
    InvalidPayload,
    JobsError,
    KeyConflict,
    KeyTaken,
    MachineError,
    NotAllowed,
    SealError,
    StaleClaim,
    StaleState,
    UnknownBatch,
    UnknownJob,
    UnknownKind,
    UnknownTarget,
)
from jobs.events import Event
from jobs.keeping import Keep, sweeper
from jobs.limits import Limit, Rate, Unique
from jobs.outcomes import (
    CircuitOpen,
    InDoubt,
    RateLimited,
    RetryAfter,
    Snooze,
    Stopped,
    Unrecoverable,
)
from jobs.payloads import Payload
from jobs.sensitive import Sensitive
from jobs.states import DeadLetterState, JobState

if TYPE_CHECKING:
    from jobs.breakers import breaker
    from jobs.engine.chains import chain
    from jobs.engine.feed import feed, feed_head
    from jobs.engine.intake import Draft, Enqueued, enqueue, enqueue_many
    from jobs.engine.outbox import emit
    from jobs.machines import Edge, Machine, Moved, machine
    from jobs.models import Attempt, DeadLetter, Job
    from jobs.operate.batches import batch
    from jobs.operate.cancel import cancel
    from jobs.operate.doubts import resolve_doubt
    from jobs.operate.explain import explain
    from jobs.operate.replay import replay
    from jobs.operate.retry import retry
    from jobs.registry import handler
    from jobs.timetable import schedule

# Django imports this package before models may be; these names are loaded when first used.
_LAZY = {
    "Attempt": "jobs.models",
    "DeadLetter": "jobs.models",
    "Draft": "jobs.engine.intake",
    "Edge": "jobs.machines",
    "Enqueued": "jobs.engine.intake",
    "Job": "jobs.models",
    "Machine": "jobs.machines",
    "Moved": "jobs.machines",
    "batch": "jobs.operate.batches",
    "breaker": "jobs.breakers",
    "cancel": "jobs.operate.cancel",
    "chain": "jobs.engine.chains",
    "emit": "jobs.engine.outbox",
    "enqueue": "jobs.engine.intake",
    "enqueue_many": "jobs.engine.intake",
    "explain": "jobs.operate.explain",
    "feed": "jobs.engine.feed",
    "feed_head": "jobs.engine.feed",
    "handler": "jobs.registry",
    "machine": "jobs.machines",
    "replay": "jobs.operate.replay",
    "resolve_doubt": "jobs.operate.doubts",
    "retry": "jobs.operate.retry",
    "schedule": "jobs.timetable",
}

__all__ = [
    "Attempt",
    "BreakerError",
    "Changed",
    "CircuitOpen",
    "ConfigError",
    "Context",
    "DeadLetter",
    "DeadLetterState",
    "Delays",
    "Denied",
    "Draft",
    "DuplicateJob",
    "Edge",
    "EffectError",
    "Ended",
    "EnqueueError",
    "Enqueued",
    "Event",
    "EventError",
    "Exponential",
    "FeedGone",
    "Fixed",
    "HandlerError",
    "Happened",
    "IllegalMove",
    "Immediate",
    "InDoubt",
    "Intent",
    "InvalidOption",
    "InvalidPayload",
    "Job",
    "JobState",
    "JobsError",
    "Keep",
    "KeyConflict",
    "KeyTaken",
    "Limit",
    "Linear",
    "Machine",
    "MachineError",
    "Moved",
    "NotAllowed",
    "NotHappened",
    "Payload",
    "Rate",
    "RateLimited",
    "RetryAfter",
    "SealError",
    "Sensitive",
    "Snooze",
    "StaleClaim",
    "StaleState",
    "Stopped",
    "Unique",
    "Unknown",
    "UnknownBatch",
    "UnknownJob",
    "UnknownKind",
    "UnknownTarget",
    "Unrecoverable",
    "batch",
    "breaker",
    "cancel",
    "chain",
    "emit",
    "ended",
    "enqueue",
    "enqueue_many",
    "explain",
    "feed",
    "feed_head",
    "handler",
    "machine",
    "replay",
    "resolve_doubt",
    "retry",
    "schedule",
    "sweeper",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'jobs' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
