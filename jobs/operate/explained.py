"""An explanation as far as it is somebody's business: ids of what he may not see are masked."""

from __future__ import annotations

import re
from dataclasses import replace
from uuid import UUID

from jobs.engine import sql
from jobs.models import Job
from jobs.operate.explain import Explanation, Reason, explain
from jobs.principals import By, principal

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MASK = "…"


def explain_to(job_id: UUID, *, by: By) -> Explanation:
    """Why the job is not running; other jobs are named only where ``by`` may see them.

    The job itself is one that ``by`` may see.
    """
    scope = principal(by).scope
    found = explain(job_id, scope)
    if scope.is_everything:
        return found
    named = {text for r in found.reasons for text in (*r.ids, *_ID.findall(r.text))}
    ids = {text for text in named if _ID.fullmatch(text)}
    rows = Job.objects.using(sql.alias()).filter(pk__in=ids).values_list("pk", "tenant", "queue")
    seen = {str(pk) for pk, tenant, queue in rows if scope.covers(tenant, queue)}
    hidden = ids - seen - {str(job_id)}
    return replace(found, reasons=tuple(_masked(reason, hidden) for reason in found.reasons))


def _masked(reason: Reason, hidden: set[str]) -> Reason:
    return replace(
        reason,
        text=_cut(reason.text, hidden),
        told=_cut(reason.told, hidden),
        ids=tuple(one for one in reason.ids if one not in hidden),
    )


def _cut(text: str, hidden: set[str]) -> str:
    """What follows the name of a hidden job belongs to that job."""
    first = next((m for m in _ID.finditer(text) if m[0] in hidden), None)
    return f"{text[: first.start()]}{MASK}" if first else text
