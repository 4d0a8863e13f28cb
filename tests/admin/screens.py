"""The addresses of every screen, for tests of all of them."""

from __future__ import annotations

from typing import Any


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
        "audit": "audit/",
        "audit-entry": f"audit/{ids['audit']}/change/",
    }


_IDS = (
    *("job", "running", "scheduled", "bulk", "cause", "letter", "batch", "schedule", "event"),
    "audit",
)
NAMES = list(screens(dict.fromkeys(_IDS, "")))
"""Every screen."""
