"""Queues as rows of a table: each number leads to the list of what it counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobs.admin import charts
from jobs.admin.access import missing
from jobs.admin.components import Capped, number
from jobs.operate.overview import QueueRow
from jobs.operate.permissions import PAUSE_QUEUE
from jobs.operate.reads import Count


def jobs_url(site: str, query: str = "", tab: str = "") -> str:
    """The list of jobs for a query."""
    given = {name: value for name, value in (("tab", tab), ("q", query)) if value}
    url = reverse(f"{site}:jobs_job_changelist")
    return f"{url}?{urlencode(given)}" if given else url


def shown(count: Count) -> Capped:
    """The count as people write numbers."""
    return Capped(count.value, count.capped)


def queue_rows(request: HttpRequest, site: str, rows: Iterable[QueueRow]) -> list[dict[str, Any]]:
    """Each queue as it is, and where its name and its numbers lead."""
    return [queue_row(request, site, row) for row in rows]


def queue_row(request: HttpRequest, site: str, row: QueueRow) -> dict[str, Any]:
    """A queue as it is."""
    depth = row.depth
    counts = {
        name: {"n": shown(count), "url": jobs_url(site, f"queue:{row.name}", name)}
        for name, count in (
            ("waiting", depth.waiting), ("running", depth.running), ("retrying", depth.retrying),
            ("scheduled", depth.scheduled),
        )
    }  # fmt: skip
    return {
        **counts,
        "name": row.name,
        "depth": depth,
        "limit": row.limit,
        "pause": next((stop for stop in row.stops if stop.what == "pause"), None),
        "blackout": next((stop for stop in row.stops if stop.what == "blackout"), None),
        "spark": _spark(row.spark),
        "page": reverse(f"{site}:jobs_queue_change", args=[row.name]),
        "no_pause": missing(request, PAUSE_QUEUE),
    }


def _spark(values: tuple[int, ...]) -> SafeString:
    if not values:
        return charts.spark([], _("nothing ended"))
    words = _("%(n)s attempts ended in the last 3 hours") % {"n": number(sum(values))}
    return charts.spark(values, words)
