"""The admin of the platform, and what other apps build their own pages with.

Public are ``PlatformAdmin`` (a list, a page and acts), ``Act`` and ``Reason``, the
``components``, ``charts`` and ``tables``, and ``register_panel``, which hangs a panel into the
page of jobs of a kind.
"""

from __future__ import annotations

from jobs.admin import charts, components, tables
from jobs.admin.access import missing, principal, visible
from jobs.admin.actions import Act, Button, Reason
from jobs.admin.apikeys import ApiKeyAdmin
from jobs.admin.audit import AuditAdmin
from jobs.admin.base import MEDIA, ModelAdmin, PlatformAdmin
from jobs.admin.batches import BatchAdmin
from jobs.admin.blackouts import BlackoutAdmin
from jobs.admin.bulks import BulkAdmin
from jobs.admin.deadletters import DeadLetterAdmin
from jobs.admin.effects import EffectAdmin
from jobs.admin.flow import BreakerAdmin, LimiterAdmin, PauseAdmin, SlotAdmin
from jobs.admin.jobs_page import JobAdmin
from jobs.admin.outbox import OutboxAdmin
from jobs.admin.overview import OverviewAdmin
from jobs.admin.panels import register_panel
from jobs.admin.queues import QueueAdmin
from jobs.admin.schedules import ScheduleAdmin
from jobs.admin.views import SavedViewAdmin
from jobs.admin.webhooks import DeliveryAdmin, WebhookAdmin
from jobs.admin.workers import WorkerAdmin

__all__ = [
    "MEDIA",
    "Act",
    "ApiKeyAdmin",
    "AuditAdmin",
    "BatchAdmin",
    "BlackoutAdmin",
    "BreakerAdmin",
    "BulkAdmin",
    "Button",
    "DeadLetterAdmin",
    "DeliveryAdmin",
    "EffectAdmin",
    "JobAdmin",
    "LimiterAdmin",
    "ModelAdmin",
    "OutboxAdmin",
    "OverviewAdmin",
    "PauseAdmin",
    "PlatformAdmin",
    "QueueAdmin",
    "Reason",
    "SavedViewAdmin",
    "ScheduleAdmin",
    "SlotAdmin",
    "WebhookAdmin",
    "WorkerAdmin",
    "charts",
    "components",
    "missing",
    "principal",
    "register_panel",
    "tables",
    "visible",
]
