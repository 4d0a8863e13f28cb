"""Open dead letters by what went wrong: the same error is one cause, whatever kinds have it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from jobs.admin.access import principal
from jobs.admin.components import Capped
from jobs.engine import sql

LOOKED_AT = 10_000
"""So many of the latest open dead letters are grouped."""
_GROUPS = """
SELECT fingerprint, kind, max(summary), max(reason), count(*), min(opened_at), max(opened_at)
FROM (SELECT fingerprint, kind, summary, reason, opened_at FROM jobs_deadletter
  WHERE state = 'open' AND (%s::text[] IS NULL OR tenant = ANY(%s))
    AND (%s::text[] IS NULL OR queue = ANY(%s))
  ORDER BY opened_at DESC, id DESC LIMIT %s) d
GROUP BY 1, 2 ORDER BY 5 DESC
"""
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F-]{12,}\b|'[^']*'|\"[^\"]*\"|\d+")


def groups(request: HttpRequest, site: str, most: int = 50) -> list[dict[str, Any]]:
    """The causes with most open dead letters, each with its kinds nested."""
    scope = principal(request).scope
    tenants = None if scope.tenants is None else sorted(scope.tenants)
    queues = None if scope.queues is None else sorted(scope.queues)
    rows = sql.rows(_GROUPS, [tenants, tenants, queues, queues, LOOKED_AT])
    capped = sum(row[4] for row in rows) >= LOOKED_AT
    found: dict[str, dict[str, Any]] = {}
    for fingerprint, kind, summary, reason, count, first, last in rows:
        error, _, message = summary.partition(": ")
        key = f"{error}\x1f{_VARIABLE.sub('#', message)}"
        group = found.setdefault(
            key,
            {
                "error": error or reason,
                "message": message,
                "number": 0,
                "first": first,
                "last": last,
                "kinds": {},
                "fingerprints": [],
            },
        )
        group["number"] += count
        group["first"], group["last"] = min(group["first"], first), max(group["last"], last)
        group["kinds"][kind] = group["kinds"].get(kind, 0) + count
        group["fingerprints"].append(fingerprint)
    listed = sorted(found.values(), key=lambda group: -group["number"])[:most]
    base = reverse(f"{site}:jobs_deadletter_changelist")
    for group in listed:
        group["count"] = Capped(group["number"], capped)
        group["kinds"] = sorted(group["kinds"].items(), key=lambda item: -item[1])
        group["key"] = group["fingerprints"][0]
        group["url"] = f"{base}?{urlencode({'cause': ','.join(group['fingerprints'][:20])})}"
    return listed
