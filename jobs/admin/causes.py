"""Causes of open dead letters in short, for the overview."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from jobs.admin.access import missing, principal
from jobs.admin.components import Capped
from jobs.operate import causes
from jobs.operate.permissions import RESOLVE_DEADLETTER


def groups(request: HttpRequest, site: str, most: int) -> list[dict[str, Any]]:
    """The open causes with most open dead letters, of those seen lately."""
    listed = [c for c in causes.every(by=principal(request), limit=50) if c.open]
    base = reverse(f"{site}:jobs_deadletter_changelist")
    found = []
    for cause in sorted(listed, key=lambda one: -one.open)[:most]:
        error, _, message = cause.sample.partition(": ")
        found.append(
            {
                "error": error,
                "message": message,
                "count": Capped(cause.open, cause.open >= causes.OPEN_LIMIT),
                "last": cause.last_at,
                "no_retry": missing(request, RESOLVE_DEADLETTER),
                "retry": reverse(f"{site}:jobs_cause_act", args=[cause.fingerprint, "retry"])
                + "?"
                + urlencode({"back": reverse(f"{site}:jobs_overview_changelist")}),
                "url": f"{base}?cause={cause.fingerprint}",
            }
        )
    return found
