"""Limits of a company: emails per minute, hour and day (UTC)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from emailgw.clock import now
from emailgw.errors import Refused
from emailgw.models import Company, Usage

SPANS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}


def current(company: Company) -> dict[str, Usage]:
    """Return the usage of the windows that are not over, by span."""
    moment = now()
    rows = Usage.objects.filter(company=company)
    return {row.span: row for row in rows if moment < row.began_at + SPANS[row.span]}


def check(company: Company, usage: Iterable[Mapping[str, Any]]) -> None:
    """Raise Refused if a limit is exceeded; the caller rolls its transaction back."""
    limits = company.limits
    ends = [
        datetime.fromisoformat(row["began_at"]) + SPANS[row["span"]]
        for row in usage
        if row["used"] > limits[row["span"]]
    ]
    if ends:
        wait = max(1, int((max(ends) - now()).total_seconds()) + 1)
        raise Refused("RATE_LIMIT_EXCEEDED", "too many emails; retry later", retry_after=wait)
