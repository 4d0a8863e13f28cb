"""The admin of the platform, and what other apps build their own pages with.

Public are ``PlainAdmin`` (a list and a page of facts, without templates), ``PlatformAdmin``
(a list, a page and acts), ``Act``, ``Reason`` and ``Words``, the ``components``, ``charts`` and
``tables``, ``LoginForm`` and ``AccountForm``, which limit failed logins, ``register_panel``, which
adds a panel to the page of jobs of a kind, and ``register``, which adds the pages to an admin site
of your own.
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
from jobs.admin.fields import Words
from jobs.admin.flow import BreakerAdmin, LimiterAdmin, MeterAdmin, PauseAdmin, SlotAdmin
from jobs.admin.jobs_page import JobAdmin
from jobs.admin.login import AccountForm, LoginForm
from jobs.admin.outbox import OutboxAdmin
from jobs.admin.overview import OverviewAdmin
from jobs.admin.panels import register_panel
from jobs.admin.plain import Column, PlainAdmin, Tab, moment
from jobs.admin.queues import QueueAdmin
from jobs.admin.schedules import ScheduleAdmin
from jobs.admin.sites import register
from jobs.admin.views import SavedViewAdmin
from jobs.admin.webhooks import DeliveryAdmin, WebhookAdmin
from jobs.admin.workers import WorkerAdmin

__all__ = [
    "MEDIA",
    "AccountForm",
    "Act",
    "ApiKeyAdmin",
    "AuditAdmin",
    "BatchAdmin",
    "BlackoutAdmin",
    "BreakerAdmin",
    "BulkAdmin",
    "Button",
    "Column",
    "DeadLetterAdmin",
    "DeliveryAdmin",
    "EffectAdmin",
    "JobAdmin",
    "LimiterAdmin",
    "LoginForm",
    "MeterAdmin",
    "ModelAdmin",
    "OutboxAdmin",
    "OverviewAdmin",
    "PauseAdmin",
    "PlainAdmin",
    "PlatformAdmin",
    "QueueAdmin",
    "Reason",
    "SavedViewAdmin",
    "ScheduleAdmin",
    "SlotAdmin",
    "Tab",
    "WebhookAdmin",
    "Words",
    "WorkerAdmin",
    "charts",
    "components",
    "missing",
    "moment",
    "principal",
    "register",
    "register_panel",
    "tables",
    "visible",
]
