"""Background jobs that can be proved: rows in PostgreSQL, executed by RQ workers.

::

    class SendEmail(jobs.Payload, kind="email.send"):
        outbox_id: UUID

    @jobs.handler(SendEmail, queue="email", max_attempts=5, timeout=30)
    def send_email(ctx: jobs.Context, payload: SendEmail) -> None: ...

    jobs.enqueue(SendEmail(outbox_id=outbox.id))

These are the names for writing, enqueueing, steering and finding jobs. Everything else has a module
of its own, such as ``jobs.errors`` and ``jobs.events``; docs/embedding.md lists them.
"""

import typing as _typing

from jobs import lazy as _lazy

if _typing.TYPE_CHECKING:
    from jobs import (
        acts as acts,
    )
    from jobs import (
        admin as admin,
    )
    from jobs import (
        api as api,
    )
    from jobs import (
        backoff as backoff,
    )
    from jobs import (
        blobs as blobs,
    )
    from jobs import (
        effects as effects,
    )
    from jobs import (
        errors as errors,
    )
    from jobs import (
        events as events,
    )
    from jobs import (
        fields as fields,
    )
    from jobs import (
        flow as flow,
    )
    from jobs import (
        http as http,
    )
    from jobs import (
        limits as limits,
    )
    from jobs import (
        machines as machines,
    )
    from jobs import (
        metrics as metrics,
    )
    from jobs import (
        models as models,
    )
    from jobs import (
        realtime as realtime,
    )
    from jobs import (
        retention as retention,
    )
    from jobs import (
        sandbox as sandbox,
    )
    from jobs import (
        statements as statements,
    )
    from jobs import (
        testing as testing,
    )
    from jobs import (
        types as types,
    )
    from jobs import (
        verbs as verbs,
    )
    from jobs import (
        webhooks as webhooks,
    )
    from jobs.backoff import Delays, Exponential
    from jobs.breakers import breaker
    from jobs.context import Context
    from jobs.endings import ended
    from jobs.engine.chains import chain
    from jobs.engine.intake import Draft, enqueue, enqueue_many
    from jobs.engine.outbox import emit
    from jobs.errors import JobsError
    from jobs.limits import Limit, Unique
    from jobs.meters import meter
    from jobs.models import Job
    from jobs.operate.batches import batch
    from jobs.operate.cancel import cancel
    from jobs.operate.explain import explain
    from jobs.operate.finding import get
    from jobs.operate.pauses import pause, resume
    from jobs.operate.replay import replay
    from jobs.operate.retry import retry
    from jobs.outcomes import RateLimited, RetryAfter, Snooze, Stopped, Unrecoverable
    from jobs.payloads import Payload
    from jobs.queues import queue
    from jobs.registry import handler
    from jobs.sensitive import Sensitive
    from jobs.states import JobState
    from jobs.tasks import task
    from jobs.timetable import schedule

_HOMES = {
    "Context": "jobs.context",
    "Delays": "jobs.backoff",
    "Draft": "jobs.engine.intake",
    "Exponential": "jobs.backoff",
    "Job": "jobs.models",
    "JobState": "jobs.states",
    "JobsError": "jobs.errors",
    "Limit": "jobs.limits",
    "Payload": "jobs.payloads",
    "RateLimited": "jobs.outcomes",
    "RetryAfter": "jobs.outcomes",
    "Sensitive": "jobs.sensitive",
    "Snooze": "jobs.outcomes",
    "Stopped": "jobs.outcomes",
    "Unique": "jobs.limits",
    "Unrecoverable": "jobs.outcomes",
    "batch": "jobs.operate.batches",
    "breaker": "jobs.breakers",
    "cancel": "jobs.operate.cancel",
    "chain": "jobs.engine.chains",
    "emit": "jobs.engine.outbox",
    "ended": "jobs.endings",
    "enqueue": "jobs.engine.intake",
    "enqueue_many": "jobs.engine.intake",
    "explain": "jobs.operate.explain",
    "get": "jobs.operate.finding",
    "handler": "jobs.registry",
    "meter": "jobs.meters",
    "pause": "jobs.operate.pauses",
    "queue": "jobs.queues",
    "replay": "jobs.operate.replay",
    "resume": "jobs.operate.pauses",
    "retry": "jobs.operate.retry",
    "schedule": "jobs.timetable",
    "task": "jobs.tasks",
}
# What an app may import besides: ``jobs.errors`` needs no import of its own.
_MODULES = (
    "acts", "admin", "api", "backoff", "blobs", "effects", "errors", "events", "fields", "flow",
    "http", "limits", "machines", "metrics", "models", "problems", "realtime", "retention",
    "sandbox", "statements", "testing", "types", "verbs", "webhooks",
)  # fmt: skip
# What a project names in its settings and its entry points, or runs in another program.
_PROJECT_MODULES = (
    "asgi", "bodies", "cache", "client", "demo", "logs", "middleware", "newkey", "router",
    "signals",
)  # fmt: skip

__all__ = [
    "Context",
    "Delays",
    "Draft",
    "Exponential",
    "Job",
    "JobState",
    "JobsError",
    "Limit",
    "Payload",
    "RateLimited",
    "RetryAfter",
    "Sensitive",
    "Snooze",
    "Stopped",
    "Unique",
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
    "get",
    "handler",
    "meter",
    "pause",
    "queue",
    "replay",
    "resume",
    "retry",
    "schedule",
    "task",
]

if not _typing.TYPE_CHECKING:  # a type checker is to find names that do not exist
    __getattr__ = _lazy.attach("jobs", _HOMES, _MODULES)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
