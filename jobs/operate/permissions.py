"""The permissions of the platform, by name, and what each of them allows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

ENQUEUE_JOB = "enqueue_job"
EDIT_JOB = "edit_job"
RETRY_JOB = "retry_job"
REPLAY_JOB = "replay_job"
CANCEL_JOB = "cancel_job"
VIEW_PAYLOAD = "view_payload"
REVEAL_PAYLOAD = "reveal_payload"
RUN_BULK = "run_bulk"
RESOLVE_DEADLETTER = "resolve_deadletter"
RESOLVE_DOUBT = "resolve_doubt"
PUBLISH_OUTBOX = "publish_outbox"
PAUSE_QUEUE = "pause_queue"
EDIT_QUEUE = "edit_queue"
VIEW_WORKER = "view_worker"
MANAGE_WORKER = "manage_worker"
MANAGE_SCHEDULE = "manage_schedule"
MANAGE_BLACKOUT = "manage_blackout"
MANAGE_WEBHOOK = "manage_webhook"
MANAGE_APIKEY = "manage_apikey"
SAVE_VIEW = "save_view"
SHARE_VIEW = "share_view"

VIEW_JOB = "view_job"
VIEW_BATCH = "view_batch"
VIEW_DEADLETTER = "view_deadletter"
VIEW_OUTBOX = "view_outbox"
VIEW_QUEUE = "view_queue"
VIEW_SCHEDULE = "view_schedule"
VIEW_BLACKOUT = "view_blackout"
VIEW_EFFECT = "view_effect"
VIEW_BREAKER = "view_breaker"
VIEW_METER = "view_meter"
VIEW_BULK = "view_bulk"
VIEW_WEBHOOK = "view_webhook"
VIEW_APIKEY = "view_apikey"
VIEW_AUDIT = "view_audit"

PERMISSIONS: Mapping[str, _StrPromise] = MappingProxyType(
    {
        ENQUEUE_JOB: _("Can enqueue jobs"),
        EDIT_JOB: _("Can edit waiting jobs"),
        RETRY_JOB: _("Can retry jobs and run them now"),
        REPLAY_JOB: _("Can replay jobs"),
        CANCEL_JOB: _("Can cancel jobs"),
        VIEW_PAYLOAD: _("Can see payloads and results"),
        REVEAL_PAYLOAD: _("Can see protected fields of payloads in clear"),
        RUN_BULK: _("Can act on many jobs at once"),
        RESOLVE_DEADLETTER: _("Can decide about dead letters"),
        RESOLVE_DOUBT: _("Can decide about effects in doubt"),
        PUBLISH_OUTBOX: _("Can park, publish and discard events"),
        PAUSE_QUEUE: _("Can pause and resume"),
        EDIT_QUEUE: _("Can change limits of queues, kinds and keys"),
        VIEW_WORKER: _("Can see workers"),
        MANAGE_WORKER: _("Can drain and stop workers"),
        MANAGE_SCHEDULE: _("Can manage schedules"),
        MANAGE_BLACKOUT: _("Can manage blackout windows"),
        MANAGE_WEBHOOK: _("Can manage webhook endpoints"),
        MANAGE_APIKEY: _("Can create and revoke API keys"),
        SAVE_VIEW: _("Can save views of the list of jobs"),
        SHARE_VIEW: _("Can share saved views"),
    }
)
"""Permissions beside Django's own ``view_…`` of each model, by codename; all of app ``jobs``."""

VIEWS = (
    VIEW_JOB,
    VIEW_BATCH,
    VIEW_DEADLETTER,
    VIEW_OUTBOX,
    VIEW_QUEUE,
    VIEW_SCHEDULE,
    VIEW_BLACKOUT,
    VIEW_EFFECT,
    VIEW_BREAKER,
    VIEW_METER,
    VIEW_BULK,
    VIEW_WEBHOOK,
    VIEW_APIKEY,
    VIEW_AUDIT,
)
"""Permissions to see, which Django makes for the models of these names."""

ALL = frozenset(PERMISSIONS) | frozenset(VIEWS)
"""Those of the platform itself."""
