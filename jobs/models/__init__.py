"""The tables: columns and constraints only. What moves them lives in ``engine`` and ``operate``."""

from jobs.models.apikey import Answer, ApiKey
from jobs.models.attempt import Attempt
from jobs.models.audit import Audit
from jobs.models.batch import Batch, Dependency
from jobs.models.bulk import Bulk, BulkItem
from jobs.models.cause import Cause, CauseSeen
from jobs.models.deadletter import DeadLetter
from jobs.models.effect import Breaker, Effect
from jobs.models.flow import Closure, Limiter, Slot
from jobs.models.job import Job
from jobs.models.key import JobKey
from jobs.models.lease import Lease
from jobs.models.meter import Meter
from jobs.models.metric import Metric
from jobs.models.minute import Minute, Quarter
from jobs.models.outbox import Feed, FeedHead, Outbox
from jobs.models.pause import Blackout, Pause
from jobs.models.queue import Queue
from jobs.models.schedule import Schedule
from jobs.models.search import Deploy, Search
from jobs.models.view import SavedView
from jobs.models.webhook import Webhook, WebhookDelivery
from jobs.models.worker import Worker

__all__ = [
    "Answer",
    "ApiKey",
    "Attempt",
    "Audit",
    "Batch",
    "Blackout",
    "Breaker",
    "Bulk",
    "BulkItem",
    "Cause",
    "CauseSeen",
    "Closure",
    "DeadLetter",
    "Dependency",
    "Deploy",
    "Effect",
    "Feed",
    "FeedHead",
    "Job",
    "JobKey",
    "Lease",
    "Limiter",
    "Meter",
    "Metric",
    "Minute",
    "Outbox",
    "Pause",
    "Quarter",
    "Queue",
    "SavedView",
    "Schedule",
    "Search",
    "Slot",
    "Webhook",
    "WebhookDelivery",
    "Worker",
]
