"""The latest acts of people, in short."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from django.contrib.admin.utils import quote as admin_quote
from django.http import HttpRequest
from django.urls import reverse

from jobs.admin.access import principal, visible
from jobs.engine import sql
from jobs.models import Audit
from jobs.operate.permissions import VIEW_AUDIT


def recent_acts(
    request: HttpRequest, site: str, most: int = 6, **wanted: Any
) -> list[dict[str, Any]]:
    """The newest acts, of those that may be seen."""
    if not principal(request).may(VIEW_AUDIT):
        return []
    rows = visible(request, Audit.objects.using(sql.alias()).filter(**wanted))
    return [
        {
            "act": act,
            "target": f"#{act.target_id}" if act.target_id.isdigit() else act.target_id,
            "url": target_url(site, act),
            "look": outcome_look(act.outcome),
        }
        for act in rows.order_by("-at", "-id")[:most]
    ]


def outcome_look(outcome: str) -> str:
    """The look's name of an outcome."""
    return {"done": "ok"}.get(outcome, outcome)


_PAGES = {
    **{name: name for name in ("job", "batch", "deadletter", "schedule", "bulk", "webhook")},
    **{"apikey": "apikey", "event": "outbox", "worker": "workerpage"},
    **{name: name for name in ("blackout", "breaker", "effect", "meter")},
}


def target_url(site: str, act: Audit) -> str:
    """The page of what was acted upon, where it has one."""
    model = _PAGES.get(act.target_kind)
    if act.target_kind == "cause" and act.target_id:
        return f"{reverse(f'{site}:jobs_deadletter_changelist')}?cause={quote(act.target_id)}"
    if act.target_kind == "scope" and act.target_id.startswith("queue:"):
        return reverse(f"{site}:jobs_queue_change", args=[act.target_id.removeprefix("queue:")])
    if model is None or not act.target_id:
        return ""
    key = admin_quote(act.target_id) if model in ("breaker", "meter") else act.target_id
    return reverse(f"{site}:jobs_{model}_change", args=[key])
