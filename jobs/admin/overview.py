"""The overview: what is wrong first, then how much there is and how fast it goes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.admin import charts, depths
from jobs.admin.access import missing, principal, visible
from jobs.admin.base import PlatformAdmin
from jobs.admin.components import Capped, capped, number, tile
from jobs.admin.depths import QueueNow
from jobs.admin.entries import Overview
from jobs.admin.problems import problems
from jobs.admin.recent import recent_acts
from jobs.engine import sql
from jobs.engine.arrivals import OUTCOME
from jobs.models import Batch, DeadLetter
from jobs.operate import charts as operate
from jobs.operate import reads, stats

HOURS, STEP = timedelta(hours=3), timedelta(minutes=6)
IN_AN_HOUR = 10
"""So many steps."""
UNCOUNTED = timedelta(seconds=90)
"""Statistics are that late."""
REGION = {"jd-overview": "jobs/admin/parts/overview.html"}


@admin.register(Overview)
class OverviewAdmin(PlatformAdmin):
    """One page, reached as the list of a model that has no rows."""

    view_permission = "view_job"
    whole_platform = True
    list_template = "jobs/admin/overview.html"

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"title": _("Overview"), **build(request, self.admin_site.name)}


def build(request: HttpRequest, site: str) -> dict[str, Any]:
    """Everything that the overview shows; the same for its page, its fragment and its block."""
    with reads.bounded():
        return _built(request, site)


def _built(request: HttpRequest, site: str) -> dict[str, Any]:
    now, _stops = depths.closed(request)
    chosen = request.GET.get("range", "3h")
    chosen = chosen if chosen in operate.SPANS else "3h"
    queues = depths.queues_now(request)
    lately = stats.series(now - HOURS, now, step=STEP, by="queue", durations=False)
    sparks = sparks_of(lately)
    rows = [
        {
            "q": q,
            "spark": sparks.get(q.name) or charts.spark([], _("nothing ended")),
            "url": jobs_url(site, f"queue:{q.name}"),
            "page": reverse(f"{site}:jobs_queue_change", args=[q.name]),
            "no_pause": missing(request, "pause_queue"),
        }
        for q in queues
    ]
    return {
        "jd_regions": REGION,
        "jd_site": site,
        "problems": problems(request, site, queues, now),
        "tiles": _tiles(request, site, queues, lately),
        "chart": _chart(request, chosen, now),
        "ranges": [{"name": name, "on": name == chosen} for name in operate.SPANS],
        "queues": rows,
        "causes": _causes(request, site),
        "batches": _batches(request, site),
        "acts": recent_acts(request, site),
        "links": {
            name: reverse(f"{site}:jobs_{name}_changelist")
            for name in ("job", "deadletter", "batch", "queue", "schedule", "outbox", "audit")
        },
    }


def jobs_url(site: str, query: str = "", tab: str = "") -> str:
    """The list of jobs for a query."""
    given = {name: value for name, value in (("tab", tab), ("q", query)) if value}
    url = reverse(f"{site}:jobs_job_changelist")
    return f"{url}?{urlencode(given)}" if given else url


def _tiles(
    request: HttpRequest,
    site: str,
    queues: list[QueueNow],
    lately: dict[str, list[stats.Point]],
) -> list[SafeString]:
    letters = visible(request, DeadLetter.objects.using(sql.alias()).filter(state="open"))
    dead = capped(len(letters.order_by().values_list("pk")[: depths.CAP + 1]), depths.CAP)
    hour = [point for points in lately.values() for point in points[-IN_AN_HOUR:]]
    done = sum(point.counts.get("succeeded", 0) for point in hour)
    failed = sum(point.counts.get("failed", 0) for point in hour)
    note = ngettext("%(n)s failed", "%(n)s failed", failed) % {"n": number(failed)}
    return [
        tile(_sum(q.waiting for q in queues), _("waiting"), url=jobs_url(site, tab="waiting")),
        tile(sum(q.running for q in queues), _("running"), url=jobs_url(site, tab="running")),
        tile(retrying := _sum(q.retrying for q in queues), _("retrying"),
             url=jobs_url(site, tab="retrying"), tone="warn" if retrying else ""),
        tile(_sum(q.scheduled for q in queues), _("scheduled"),
             url=jobs_url(site, tab="scheduled")),
        tile(dead, _("dead letters"), url=reverse(f"{site}:jobs_deadletter_changelist"),
             tone="bad" if dead else ""),
        tile(number(done), _("done in the last hour"), url=jobs_url(site, tab="succeeded"),
             note=note),
    ]  # fmt: skip


def _sum(found: Any) -> Capped:
    counts = list(found)
    return Capped(sum(c.value for c in counts), any(c.more for c in counts))


def _chart(request: HttpRequest, chosen: Any, now: datetime) -> dict[str, Any]:
    """What came in and how it ended, per minute, with a line for everything that went live."""
    if missing(request, "view_queue"):
        return {}
    found = operate.throughput(chosen, by=principal(request), now=now)
    # What is still being counted would look like a fall.
    points = [p for p in found.points if p.at + timedelta(seconds=p.step) <= now - UNCOUNTED]
    minutes = operate.SPANS[chosen][1].total_seconds() / 60
    lines = [
        charts.Line(label, [round(p.counts.get(name, 0) / minutes, 2) for p in points], tone)
        for name, label, tone in (
            (OUTCOME, _("enqueued"), "blue"),
            ("succeeded", _("succeeded"), "green"),
            ("retried", _("failed, to be retried"), "amber"),
            ("failed", _("failed for good"), "red"),
        )
    ]
    starts = [p.at for p in points]
    return {
        "svg": charts.throughput(starts, lines, [(d.at, d.version) for d in found.deploys]),
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


def sparks(now: datetime) -> dict[str, SafeString]:
    """What was done lately, by queue."""
    return sparks_of(stats.series(now - HOURS, now, step=STEP, by="queue", durations=False))


def sparks_of(lately: dict[str, list[stats.Point]]) -> dict[str, SafeString]:
    found = {}
    for queue, points in lately.items():
        values = [point.counts.get("succeeded", 0) for point in points]
        words = _("%(n)s jobs done in the last 3 hours") % {"n": number(sum(values))}
        found[queue] = charts.spark(values, words)
    return found


def _causes(request: HttpRequest, site: str) -> list[dict[str, Any]]:
    from jobs.admin.causes import groups

    if missing(request, "view_deadletter"):
        return []
    return groups(request, site, most=6)


def _batches(request: HttpRequest, site: str) -> list[dict[str, Any]]:
    from jobs.admin.batches import bar

    if not principal(request).may("view_batch"):
        return []
    rows = visible(
        request, Batch.objects.using(sql.alias()).defer("callbacks", "called"), queue=None
    )
    recent = list(rows.order_by("-created_at", "-id")[:50])
    return [
        {"batch": b, "url": reverse(f"{site}:jobs_batch_change", args=[b.pk]), **bar(b)}
        for b in recent
        if b.state != "done"
    ][:6]
