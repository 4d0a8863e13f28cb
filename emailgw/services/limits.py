"""How much a company may hand in: per minute, hour and day of the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from emailgw.clock import now
from emailgw.errors import Refused
from emailgw.models import Company

SPANS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}

USE = """INSERT INTO emailgw_usage AS u (company_id, span, began_at, used)
  SELECT $1::uuid, s, date_trunc(s, jobs_clock(), 'UTC'), 1
  FROM o, unnest(ARRAY['day', 'hour', 'minute']) s ORDER BY s
  ON CONFLICT (company_id, span) DO UPDATE SET began_at = excluded.began_at,
    used = excluded.used + CASE WHEN u.began_at = excluded.began_at THEN u.used ELSE 0 END
  RETURNING span, used, began_at"""
"""One more email of the company is counted, where there is one in ``o``."""


def check(company: Company, usage: Iterable[Mapping[str, Any]]) -> None:
    """Raises Refused where the emails were too many, which undoes the caller."""
    limits = company.limits
    ends = [
        datetime.fromisoformat(row["began_at"]) + SPANS[row["span"]]
        for row in usage
        if row["used"] > limits[row["span"]]
    ]
    if ends:
        wait = max(1, int((max(ends) - now()).total_seconds()) + 1)
        raise Refused("RATE_LIMIT_EXCEEDED", "too many emails for now", retry_after=wait)
