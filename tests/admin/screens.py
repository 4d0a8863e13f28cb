"""The addresses of every screen, for tests of all of them."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import quote


def screens(ids: dict[str, Any]) -> dict[str, str]:
    """Addresses below the admin, by name."""
    return {
        "overview": "overview/",
        "jobs": "job/",
        "jobs-failed": "job/?tab=dead",
        "jobs-none": "job/?q=kind:nothing.at.all",
        "jobs-wrong": "job/?q=knd:x",
        "job-failed": f"job/{ids['job']}/change/",
        "job-running": f"job/{ids['running']}/change/",
        "job-scheduled": f"job/{ids['scheduled']}/change/",
        "job-retry": f"job/{ids['job']}/do/retry/",
        "bulk-confirm": "bulk/do/start/?action=cancel&all=1&query=kind:test.*",
        "bulk-sure": "bulk/do/start/?action=retry&all=1&query=queue:mailing",
        "bulks": "bulk/",
        "bulk": f"bulk/{ids['bulk']}/change/",
        "letters": "deadletter/",
        "letters-cause": f"deadletter/?cause={ids['cause']}",
        "letter": f"deadletter/{ids['letter']}/change/",
        "cause-ignore": f"deadletter/cause/{ids['cause']}/do/ignore/",
        "batches": "batch/",
        "batch": f"batch/{ids['batch']}/change/",
        "queues": "queue/",
        "queue": "queue/default/change/",
        "queue-pause": "queue/default/do/pause/",
        "workers": "workerpage/",
        "schedules": "schedule/",
        "schedule": f"schedule/{ids['schedule']}/change/",
        "blackouts": "blackout/",
        "blackout-new": "blackout/do/new/",
        "outbox": "outbox/",
        "event": f"outbox/{ids['event']}/change/",
        "job-replay": f"job/{ids['job']}/do/replay/",
        "job-reveal": f"job/{ids['job']}/do/reveal/",
        "job-edit": f"job/{ids['scheduled']}/do/edit/",
        "jobs-export": "job/do/export/?query=kind:test.*",
        "queue-limit": "queue/default/do/limit/",
        "scope-pause": "queue/do/pause/",
        "worker": "workerpage/w1/change/",
        "worker-stop": "workerpage/w1/do/stop/",
        "deploy": "workerpage/do/deploy/",
        "schedule-new": "schedule/do/new/",
        "schedule-edit": f"schedule/{ids['schedule']}/do/edit/",
        "schedule-backfill": f"schedule/{ids['schedule']}/do/backfill/",
        "keys": "apikey/",
        "key-new": "apikey/do/new/",
        "webhooks": "webhook/",
        "webhook-new": "webhook/do/new/",
        "key": f"apikey/{ids['key']}/change/",
        "key-rotate": f"apikey/{ids['key']}/do/rotate/",
        "key-revoke": f"apikey/{ids['key']}/do/revoke/",
        "webhook": f"webhook/{ids['webhook']}/change/",
        "webhook-rotate": f"webhook/{ids['webhook']}/do/rotate/",
        "webhook-delete": f"webhook/{ids['webhook']}/do/delete/",
        "delivery": f"webhookdelivery/{ids['delivery']}/change/",
        "delivery-again": f"webhookdelivery/{ids['delivery']}/do/redeliver/",
        "bulk-done": f"bulk/{ids['bulk_done']}/change/",
        "bulk-aborted": f"bulk/{ids['bulk_aborted']}/change/",
        "bulk-abort": f"bulk/{ids['bulk']}/do/abort/",
        "bulk-edit": "bulk/do/start/?action=edit&all=1&query=kind:test.noop",
        "batch-done": f"batch/{ids['batch_done']}/change/",
        "batch-cancel": f"batch/{ids['batch']}/do/cancel/",
        "job-long": f"job/{ids['long']}/change/",
        "job-refused": f"job/{ids['running']}/do/retry/",
        "views": "savedview/",
        "view-save": "savedview/do/save/?query=kind:test.*&tab=dead",
        "view-edit": f"savedview/{ids['view']}/do/edit/",
        "view-remove": f"savedview/{ids['view']}/do/remove/",
        "audit": "audit/",
        "audit-entry": f"audit/{ids['audit']}/change/",
        "audit-change": f"audit/{ids['audit_change']}/change/",
        "webhook-stopped": f"webhook/{ids['webhook_stopped']}/change/",
        "pauses": "pause/",
        "limits": "limiter/",
        "limit": f"limiter/{quote('queue:letters')}/change/",
        "exclusive": "slot/",
        "breakers": "breaker/",
        "breaker": "breaker/meta/change/",
        "meters": "meter/",
        "meter": "meter/binance/change/",
        "effects": "effect/",
        "effect": f"effect/{ids['effect']}/change/",
    }


IDS = (
    *("job", "running", "scheduled", "bulk", "cause", "letter", "batch", "schedule", "event"),
    *("audit", "key", "webhook", "delivery", "bulk_done", "bulk_aborted", "batch_done", "long"),
    *("view", "audit_change", "webhook_stopped", "effect"),
)
NOTHING = {
    "nothing-here": "job/00000000-0000-7000-8000-000000000000/change/",
    "nothing-allowed": "apikey/",
}
"""Pages that are refused to a viewer, or not there."""
FOR_VIEWERS = {
    "viewer-jobs": "jobs",
    "viewer-job": "job-failed",
    "viewer-letters": "letters",
    "viewer-batch": "batch",
}
"""Pages as somebody sees them who may only look, by the name of the page."""
EMPTY = ("overview", "jobs", "bulks", "letters", "batches", "queues", "workers", "schedules",
         "blackouts", "outbox", "keys", "webhooks", "views", "audit", "pauses", "limits",
         "exclusive", "breakers", "meters", "effects")  # fmt: skip
"""Pages that have something to say where there is nothing yet."""
NAMES = list(screens(dict.fromkeys(IDS, "")))
"""Every screen."""
DIFFERING = {
    *("overview", "jobs", "jobs-failed", "job-failed", "job-retry", "job-edit", "bulk-confirm"),
    *("bulk", "letter", "batch", "queue", "queue-limit", "worker", "schedule-new", "blackout-new"),
    *("event", "key-new", "webhook", "views", "audit-entry", "breaker", "nothing-here"),
}
"""One screen of each kind: enough where only the theme or the version of Django is another."""
