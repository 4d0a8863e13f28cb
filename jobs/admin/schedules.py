"""Schedules: their rules in words, what comes next, what came of the last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import conf
from jobs.admin import charts, crontext
from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Until, site_of
from jobs.admin.base import PlatformAdmin
from jobs.admin.components import duration, pretty
from jobs.admin.copying import api, cli
from jobs.admin.recent import recent_acts
from jobs.admin.scheduleforms import BACKFILL, EDIT, MISSED, NEW, OVERLAP
from jobs.admin.words import look
from jobs.engine import closures, sql
from jobs.errors import JobsError
from jobs.models import Blackout, Job, Schedule
from jobs.operate import schedules
from jobs.operate.permissions import VIEW_PAYLOAD
from jobs.operate.shown import public_data
from jobs.windows import is_inside

NEXT = 5
LAST = 60


def _state(row: Schedule) -> str:
    if row.error:
        return "error"
    if not row.enabled:
        return "disabled"
    return "paused" if row.paused_at is not None else "active"


def _name(row: Schedule) -> str:
    return row.name


def _paused(request: HttpRequest, row: Schedule) -> str:
    return _("It is paused already.") if row.paused_at is not None else ""


def _not_paused(request: HttpRequest, row: Schedule) -> str:
    return "" if row.paused_at is not None else _("It is not paused.")


def _declared(request: HttpRequest, row: Schedule) -> str:
    return _("It is declared in code; pause it instead.") if row.is_declared and row.enabled else ""


def _made(request: HttpRequest, row: Schedule, made: UUID) -> tuple[str, str]:
    site = site_of(request)
    return _("A job was made."), reverse(f"{site}:jobs_job_change", args=[made])


def _gone(request: HttpRequest, row: Schedule, found: None) -> tuple[str, str]:
    site = site_of(request)
    return _("The schedule is gone."), reverse(f"{site}:jobs_schedule_changelist")


def _pause_means(request: HttpRequest, row: Schedule) -> Sequence[Any]:
    return [_("It makes no jobs meanwhile; the slots are not made up for."),
            _("Jobs that it has made run on.")]  # fmt: skip


@admin.register(Schedule)
class ScheduleAdmin(PlatformAdmin):
    """Jobs that come back by the clock."""

    list_template = "jobs/admin/schedules.html"
    page_template = "jobs/admin/schedule.html"
    acts = (
        Act("run", gettext_lazy("Run now…"), show=_made, tone="primary", target=_name,
            consequences=lambda r, s: [_("One job is created in addition to its slots.")],
            verb="schedule.run_now", many=True),
        Act("pause", gettext_lazy("Pause…"), None, _paused, _pause_means,
            Until, target=_name, verb="schedule.pause", many=True,
            done=gettext_lazy("The schedule is paused.")),
        Act("resume", gettext_lazy("Resume…"), None, _not_paused,
            lambda r, s: [_("It continues with the next slot from now.")],
            verb="schedule.resume", many=True, target=_name,
            done=gettext_lazy("The schedule is resumed.")),
        EDIT, BACKFILL,
        Act("remove", gettext_lazy("Remove…"), None, _declared,
            lambda r, s: [_("It makes no more jobs; those it has made stay.")], tone="danger",
            verb="schedule.remove", target=_name, show=_gone),
    )  # fmt: skip
    list_acts = (NEW,)

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        rows = [
            {"s": s, "url": self.page_url(s.pk), "state": _state(s), "rule": rule(s),
             "words": crontext.in_words(s.cron or ""), "next": schedules.coming(s),
             "buttons": self.buttons(request, s, s.pk)}
            for s in _seen(request)
        ]  # fmt: skip
        return {"title": _("Schedules"), "rows": rows,
                "jd_regions": {"jd-schedules": "jobs/admin/parts/schedules.html"},
                "blackouts_url": reverse(f"{self.admin_site.name}:jobs_blackout_changelist"),
                "list_buttons": self.list_buttons(request), "api": api("schedule_list"),
                "cli": cli("schedules", "list")}  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        """By its number, or by its name, which is how the audit knows it."""
        seen = list(_seen(request))
        by_name = (s for s in seen if s.name == key)
        return next((s for s in seen if str(s.pk) == key), next(by_name, None))

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        site = self.admin_site.name
        made = list(
            Job.objects.using(sql.alias()).filter(schedule_id=row.pk, slot_at__isnull=False)
            .only("id", "state", "slot_at", "wait", "failures", "cancel_requested_at")
            .order_by("-slot_at")[:LAST]
        )  # fmt: skip
        strip = [(look(str(j.state)).tone, f"{j.slot_at:%Y-%m-%d %H:%M}: {j.state}") for j in made]
        sees = not missing(request, VIEW_PAYLOAD)
        return {
            "s": row,
            "state": _state(row),
            "rule": rule(row),
            "words": crontext.in_words(row.cron or ""),
            "missed": MISSED.get(row.missed, row.missed),
            "overlap": OVERLAP.get(row.overlap, row.overlap),
            "slots": next_slots(row),
            "next": schedules.coming(row),
            "strip": charts.outcomes(strip[::-1], _("its last %(n)d jobs") % {"n": len(strip)})
            if strip else "",
            "last": [{"job": j, "url": reverse(f"{site}:jobs_job_change", args=[j.pk])}
                     for j in made[:8]],
            "payload": pretty(public_data(row.payload)) if sees else None,
            "no_payload": missing(request, VIEW_PAYLOAD),
            "options": pretty(row.options) if row.options else "",
            "acts": recent_acts(request, site, target_kind="schedule", target_id=row.name),
            "buttons": self.buttons(request, row, row.pk),
            "jd_regions": {"jd-schedule": "jobs/admin/parts/schedule.html"},
        }  # fmt: skip


def _seen(request: HttpRequest) -> list[Schedule]:
    """Schedules whose jobs lie within sight."""
    from jobs import registry

    scope = principal(request).scope
    found = []
    for row in schedules.every()[:500]:
        handler = registry.find(row.kind)
        queue = row.options.get("queue") or (
            handler.queue if handler else conf.settings().DEFAULT_QUEUE
        )
        if scope.covers(row.options.get("tenant") or "", queue):
            found.append(row)
    return found


def rule(row: Schedule) -> str:
    """When it comes, in words."""
    if row.interval is not None:
        return _("every %(length)s") % {"length": duration(row.interval)}
    return f"{row.cron} ({row.time_zone})"


def next_slots(row: Schedule) -> list[dict[str, Any]]:
    """The next slots in its own time zone, with what would keep their jobs waiting."""
    try:
        coming = schedules.preview(row.name, NEXT)
    except JobsError:
        return []
    from jobs import registry

    handler = registry.find(row.kind)
    queue = row.options.get("queue") or (
        handler.queue if handler else conf.settings().DEFAULT_QUEUE
    )
    scopes = [f"queue:{queue}", f"kind:{row.kind}", f"tenant:{row.options.get('tenant') or ''}"]
    windows = [
        closures.window(w.start, w.end, w.time_zone, w.days)
        for w in Blackout.objects.using(sql.alias()).filter(enabled=True, scope__in=scopes)
    ]
    zone = ZoneInfo(row.time_zone)
    return [
        {"at": at, "local": at.astimezone(zone).strftime("%Y-%m-%d %H:%M %Z"),
         "until": next((end for w in windows if (end := is_inside(w, at))), None),
         "jump": _jumps(at, zone)}
        for at in coming
    ]  # fmt: skip


def _jumps(at: datetime, zone: ZoneInfo) -> bool:
    """Whether the clocks there are changed on this day."""
    before = (at - timedelta(hours=12)).astimezone(zone).utcoffset()
    return before != (at + timedelta(hours=12)).astimezone(zone).utcoffset()
