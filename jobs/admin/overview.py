"""The overview: what is wrong first, then how much there is and how fast it goes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from jobs.admin import charts
from jobs.admin.access import missing, principal, visible
from jobs.admin.base import PlatformAdmin
from jobs.admin.components import tile
from jobs.admin.entries import Overview
from jobs.admin.problems import problems
from jobs.admin.queuerows import jobs_url, queue_rows, shown
from jobs.admin.recent import recent_acts
from jobs.engine import sql
from jobs.engine.arrivals import OUTCOME
from jobs.models import Batch
from jobs.operate import charts as operate
from jobs.operate import overview, reads
from jobs.operate.permissions import VIEW_BATCH, VIEW_DEADLETTER, VIEW_JOB, VIEW_QUEUE
from jobs.operate.reads import Count

UNCOUNTED = timedelta(seconds=90)
"""Statistics are that late."""
REGION = {"jd-overview": "jobs/admin/parts/overview.html"}


@admin.register(Overview)
class OverviewAdmin(PlatformAdmin):
    """One page, reached as the list of a model that has no rows."""

    view_permission = VIEW_JOB
    whole_platform = True
    list_template = "jobs/admin/overview.html"

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"title": _("Overview"), **build(request, self.admin_site.name)}


def build(request: HttpRequest, site: str) -> dict[str, Any]:
    """Everything that the overview shows; the same for its page, its fragment and its block."""
    with reads.bounded():
        return _built(request, site)


def _built(request: HttpRequest, site: str) -> dict[str, Any]:
    found = overview.overview(by=principal(request), lists=False)
    chosen = request.GET.get("range", "3h")
    chosen = chosen if chosen in operate.SPANS else "3h"
    return {
        "jd_regions": REGION,
        "jd_site": site,
        "problems": problems(site, found.problems),
        "tiles": _tiles(site, found.tiles),
        "chart": _chart(request, chosen, found.at, is_busy=bool(found.tiles["done"].value)),
        "ranges": [{"name": name, "on": name == chosen} for name in operate.SPANS],
        "queues": queue_rows(request, site, found.queues),
        "no_queues": missing(request, VIEW_QUEUE),
        "causes": _causes(request, site),
        "batches": _batches(request, site),
        "acts": recent_acts(request, site),
        "links": {
            name: reverse(f"{site}:jobs_{name}_changelist")
            for name in ("job", "deadletter", "batch", "queue", "schedule", "outbox", "audit")
        },
    }


def _tiles(site: str, found: Mapping[str, Count]) -> list[SafeString]:
    """Each number leads to the list of what it counts; attempts of the past have no such list."""
    counts = {name: shown(count) for name, count in found.items()}
    tones = {"retrying": "warn", "dead": "bad"}
    labels = {
        "waiting": pgettext("count", "waiting"), "running": _("running"), "retrying": _("retrying"),
        "scheduled": pgettext("count", "scheduled"), "dead": _("dead letters"),
    }  # fmt: skip
    tiles = [
        tile(
            counts[name],
            label,
            url=reverse(f"{site}:jobs_deadletter_changelist")
            if name == "dead"
            else jobs_url(site, tab=name),
            tone=tones.get(name, "") if counts[name] else "",
        )
        for name, label in labels.items()
    ]
    failed = counts["failed"]
    note = ngettext("%(n)s failed", "%(n)s failed", failed.value) % {"n": failed}
    return [*tiles, tile(counts["done"], _("done in the last hour"), note=note)]


def _chart(request: HttpRequest, chosen: Any, now: datetime, *, is_busy: bool) -> dict[str, Any]:
    """What came in and how it ended, per minute, with a line for everything that went live."""
    if missing(request, VIEW_QUEUE):
        return {}
    found = operate.throughput(chosen, by=principal(request), now=now)
    # What is still being counted would look like a fall.
    points = [p for p in found.points if p.at + timedelta(seconds=p.step) <= now - UNCOUNTED]
    minutes = operate.SPANS[chosen][1].total_seconds() / 60
    lines = [
        charts.Line(label, [round(p.counts.get(name, 0) / minutes, 2) for p in points], tone)
        for name, label, tone in (
            (OUTCOME, pgettext("count", "enqueued"), "blue"),
            ("succeeded", pgettext("count", "succeeded"), "green"),
            ("retried", _("failed, to be retried"), "amber"),
            ("failed", _("failed for good"), "red"),
        )
    ]
    starts = [p.at for p in points]
    # The tiles above the chart count what is not drawn yet.
    empty = _("The current minute is drawn when it is over.") if is_busy else ""
    marks = [(d.at, d.version) for d in found.deploys]
    return {
        "svg": charts.throughput(starts, lines, marks, empty),
        "deploys": found.deploys,
        "legend": charts.legend(
            [charts.Part(line.label, 0, line.tone) for line in lines], values=False
        ),
        "labels": [line.label for line in lines],
        "rows": [
            (at, [line.values[n] for line in lines])
            for n, at in enumerate(starts)
            if any(line.values[n] for line in lines)
        ][-60:],
    }


def _causes(request: HttpRequest, site: str) -> list[dict[str, Any]]:
    from jobs.admin.causes import groups

    if missing(request, VIEW_DEADLETTER):
        return []
    return groups(request, site, most=6)


def _batches(request: HttpRequest, site: str) -> list[dict[str, Any]]:
    from jobs.admin.batches import bar

    if not principal(request).may(VIEW_BATCH):
        return []
    rows = visible(
        request, Batch.objects.using(sql.alias()).defer("callbacks", "called"), queue=None
    )
    recent = list(rows.order_by("-created_at", "-id")[:50])
    counted = principal(request).scope.queues is None
    return [
        {"batch": b, "url": reverse(f"{site}:jobs_batch_change", args=[b.pk]),
         **bar(b, is_counted=counted)}
        for b in recent
        if b.state != "done"
    ][:6]  # fmt: skip
