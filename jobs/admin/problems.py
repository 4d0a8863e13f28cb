"""What is wrong now, each with one way to mend it; nothing where all is well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobs.admin.components import problem, time_tag
from jobs.admin.depths import QueueNow, closed
from jobs.engine import rq, sql
from jobs.operate import services
from jobs.operate.phrases import scope_word

LATE = timedelta(minutes=5)
"""A queue whose oldest job waits for longer is said to be late."""
LOST = 5
"""So many silent workers are named."""
LAG = timedelta(seconds=30)

NOBODY = {
    "schedules": gettext_lazy("Nobody serves schedules: their jobs are not made."),
    "relay": gettext_lazy("Nobody relays events: they wait in the outbox."),
}
DOUBTS = 100
"""So far effects in doubt are counted."""
_READ = f"""
(SELECT 'lost' AS what, l.worker AS name, l.until AS at, j.id::text AS id, j.kind
  FROM jobs_lease l
  LEFT JOIN LATERAL (SELECT id, kind FROM jobs_job WHERE queue = ANY(l.queues)
    AND state IN ('queued', 'running') AND owner = l.owner LIMIT 1) j ON true
  WHERE l.dead_at IS NULL AND l.until <= jobs_clock() ORDER BY l.until DESC LIMIT 50)
UNION ALL (SELECT 'lag', '', occurred_at, NULL, NULL FROM jobs_outbox
  WHERE state = 'pending' AND NOT held ORDER BY id LIMIT 1)
UNION ALL (SELECT 'schedule', name, next_slot, id::text, NULL FROM jobs_schedule
  WHERE enabled AND paused_at IS NULL AND next_slot < jobs_clock() - %s ORDER BY name LIMIT 3)
UNION ALL (SELECT 'doubt', '', NULL, NULL, NULL FROM jobs_effect
  WHERE state = 'in_doubt' LIMIT {DOUBTS})
UNION ALL SELECT what, name, at, NULL, NULL FROM ({services.READ}) s WHERE what = 'holder'
"""  # noqa: S608 - constants
Found = Mapping[str, Sequence[tuple[Any, ...]]]


def problems(
    request: HttpRequest, site: str, queues: list[QueueNow], now: datetime
) -> list[SafeString]:
    """The strip over the overview."""
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for what, *columns in sql.rows(_READ, [LATE]):
        found[what].append(tuple(columns))
    return [*_lost(site, found), *_queues(site, queues, now), *_engine(site, found, now),
            *_closed(request, site)]  # fmt: skip


def _lost(site: str, found: Found) -> Iterator[SafeString]:
    told = set[str]()
    for worker, until, job_id, kind in found["lost"]:
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


def _engine(site: str, found: Found, now: datetime) -> Iterator[SafeString]:
    heard: list[str] = []
    try:
        heard = rq.live_dispatchers()
        if not heard:
            yield problem("red", _("No dispatcher is running: waiting jobs are not handed out. "
                                   "Start one with “manage.py jobs dispatch”."),
                          url=reverse(f"{site}:jobs_workerpage_changelist"),
                          link=_("See what runs"))  # fmt: skip
    except rq.Unavailable:
        yield problem("red", _("Redis cannot be reached: jobs are kept, and wait."))
    holders = [("holder", name, at) for name, at, *_rest in found["holder"]]
    for one in services.told(holders, now, heard):
        if one.state == "silent" and one.name in NOBODY:
            url = reverse(f"{site}:jobs_workerpage_changelist")
            yield problem("red", NOBODY[one.name], url=url, link=_("See the services"))
    for _name, since, *_rest in found["lag"]:
        if now - since > LAG:
            text = format_html(
                _("An event has waited in the outbox for {}."), time_tag(since, "for")
            )
            url = reverse(f"{site}:jobs_outbox_changelist")
            yield problem("amber", text, url=url, link=_("See the outbox"))
    for name, slot, key, _kind in found["schedule"]:
        text = format_html(
            _("Schedule {} has missed its slot of {}."),
            format_html("<b>{}</b>", name),
            time_tag(slot),
        )
        url = reverse(f"{site}:jobs_schedule_change", args=[key])
        yield problem("amber", text, url=url, link=_("See the schedule"))
    doubts = len(found["doubt"])
    if doubts:
        words = ngettext(
            "%(n)d effect may or may not have happened.",
            "%(n)d effects may or may not have happened.",
            doubts,
        )
        url = reverse(f"{site}:jobs_effect_changelist") + "?state=in_doubt"
        yield problem("amber", words % {"n": doubts}, url=url, link=_("Decide"))


def _closed(request: HttpRequest, site: str) -> Iterator[SafeString]:
    for stop in closed(request)[1]:
        scope = format_html("<b>{}</b>", capfirst(scope_word(stop.scope).told))
        if stop.what == "pause":
            until: Any = time_tag(stop.until) if stop.until else _("somebody resumes it")
            text = format_html(
                _("{} is paused by {} until {}: {}"), scope, stop.by, until, stop.reason
            )
            yield problem("violet", text, url=reverse(f"{site}:jobs_queue_changelist"),
                          link=_("See the queues"))  # fmt: skip
            continue
        text = format_html(
            _("Blackout: {} is closed until {}: {}"),
            scope,
            time_tag(stop.until) if stop.until else "…",
            stop.words,
        )
        yield problem("violet", text, url=reverse(f"{site}:jobs_blackout_changelist"),
                      link=_("See the windows"))  # fmt: skip
