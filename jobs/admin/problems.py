"""What is wrong now, each with one way to mend it; nothing where all is well."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.admin.components import problem, time_tag
from jobs.admin.depths import QueueNow, closed
from jobs.engine import rq, sql
from jobs.models import Effect, Schedule

LATE = timedelta(minutes=5)
"""A queue whose oldest job waits for longer is said to be late."""
LOST = 5
"""So many silent workers are named."""
LAG = timedelta(seconds=30)

_LOST = """
SELECT l.worker, l.until, j.id, j.kind FROM jobs_lease l
LEFT JOIN LATERAL (SELECT id, kind FROM jobs_job WHERE queue = ANY(l.queues)
  AND state IN ('queued', 'running') AND owner = l.owner LIMIT 1) j ON true
WHERE l.dead_at IS NULL AND l.until <= jobs_clock() ORDER BY l.until DESC LIMIT 50
"""
_LAG = """
SELECT occurred_at FROM jobs_outbox WHERE state = 'pending' AND NOT held ORDER BY id LIMIT 1
"""


def problems(
    request: HttpRequest, site: str, queues: list[QueueNow], now: datetime
) -> list[SafeString]:
    """The strip over the overview."""
    return [*_lost(site), *_queues(site, queues, now), *_engine(site, now), *_closed(request, site)]


def _lost(site: str) -> Iterator[SafeString]:
    told = set[str]()
    for worker, until, job_id, kind in sql.rows(_LOST):
        if worker in told or len(told) == LOST:
            continue
        told.add(worker)
        text = format_html(
            _("Worker {} has fallen silent: its lease ended {}."),
            format_html("<b>{}</b>", worker),
            time_tag(until),
        )
        url = reverse(f"{site}:jobs_job_change", args=[job_id]) if job_id else ""
        yield problem("red", text, url=url, link=_("It was running %(kind)s") % {"kind": kind})


def _queues(site: str, queues: list[QueueNow], now: datetime) -> Iterator[SafeString]:
    for q in queues:
        if not q.waiting or q.pause or q.blackout_until:
            continue
        url = reverse(f"{site}:jobs_queue_change", args=[q.name])
        if not q.workers:
            words = ngettext(
                "Queue {} has {} waiting job and no worker.",
                "Queue {} has {} waiting jobs and no worker.",
                q.waiting.value,
            )
            text = format_html(words, format_html("<b>{}</b>", q.name), q.waiting)
            yield problem("amber", text, url=url, link=_("See the queue"))
        elif q.oldest is not None and now - q.oldest > LATE:
            text = format_html(
                _("In queue {} a job has been waiting for {}."),
                format_html("<b>{}</b>", q.name),
                time_tag(q.oldest, "for"),
            )
            yield problem("amber", text, url=url, link=_("See the queue"))


def _engine(site: str, now: datetime) -> Iterator[SafeString]:
    try:
        if not rq.live_dispatchers():
            yield problem("red", _("No dispatcher is running: waiting jobs are not handed out. "
                                   "Start one with “manage.py jobs dispatch”."),
                          url=reverse(f"{site}:jobs_workerpage_changelist"),
                          link=_("See what runs"))  # fmt: skip
    except rq.Unavailable:
        yield problem("red", _("Redis cannot be reached: jobs are kept, and wait."))
    for (since,) in sql.rows(_LAG):
        if now - since > LAG:
            text = format_html(
                _("An event has waited in the outbox for {}."), time_tag(since, "for")
            )
            url = reverse(f"{site}:jobs_outbox_changelist")
            yield problem("amber", text, url=url, link=_("See the outbox"))
    late = Schedule.objects.using(sql.alias()).filter(
        enabled=True, paused_at=None, next_slot__lt=now - LATE
    )
    for schedule in late[:3]:
        text = format_html(
            _("Schedule {} has missed its slot of {}."),
            format_html("<b>{}</b>", schedule.name),
            time_tag(schedule.next_slot),
        )
        url = reverse(f"{site}:jobs_schedule_change", args=[schedule.pk])
        yield problem("amber", text, url=url, link=_("See the schedule"))
    doubts = len(Effect.objects.using(sql.alias()).filter(state="in_doubt").values_list("pk")[:100])
    if doubts:
        words = ngettext(
            "%(n)d effect may or may not have happened.",
            "%(n)d effects may or may not have happened.",
            doubts,
        )
        url = reverse(f"{site}:jobs_effect_changelist") + "?state=in_doubt"
        yield problem("amber", words % {"n": doubts}, url=url, link=_("Decide"))


def _closed(request: HttpRequest, site: str) -> Iterator[SafeString]:
    paused, shut = closed(request)
    for pause in paused:
        until: Any = time_tag(pause.until) if pause.until else _("somebody resumes it")
        text = format_html(
            _("{} is paused by {} until {}: {}"),
            format_html("<b>{}</b>", pause.scope), pause.by, until, pause.reason,
        )  # fmt: skip
        yield problem("violet", text, url=reverse(f"{site}:jobs_queue_changelist"),
                      link=_("See the queues"))  # fmt: skip
    for stop in shut:
        text = format_html(
            _("Blackout: {} is closed until {}: {}"),
            format_html("<b>{}</b>", stop.scope),
            time_tag(stop.until) if stop.until else "…",
            stop.words,
        )
        yield problem("violet", text, url=reverse(f"{site}:jobs_blackout_changelist"),
                      link=_("See the windows"))  # fmt: skip
