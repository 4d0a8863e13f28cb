"""Queues: what waits in each, who works, what holds it; pausing and resuming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import quote as admin_quote
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from jobs import registry
from jobs.admin import charts, limits
from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Button, Until
from jobs.admin.base import PlatformAdmin
from jobs.admin.components import duration, number
from jobs.admin.copying import api, cli
from jobs.admin.fields import SCOPE, Words
from jobs.admin.flow import PAUSE_ACTS
from jobs.admin.queuerows import jobs_url, queue_row, queue_rows
from jobs.admin.recent import recent_acts
from jobs.admin.workers import services_of, workers
from jobs.engine import closures
from jobs.engine.closures import Stop
from jobs.models import Queue
from jobs.operate import depths, overview, services, stats, troubles
from jobs.operate.permissions import VIEW_WORKER

RUNNING = Words(
    gettext_lazy("Running jobs"), widget=forms.RadioSelect,
    choices={"finish": gettext_lazy("finish"),
             "stop": gettext_lazy("stop, and wait like the others")},
)  # fmt: skip


class PauseForm(Until):
    """Until when, and what becomes of what runs."""

    words = {**Until.words, "running": RUNNING}


class ScopePauseForm(PauseForm):
    """The same for a kind, a tenant or a key."""

    words = {**PauseForm.words, "scope": SCOPE}


@dataclass(frozen=True, slots=True)
class Named:
    """A queue as the subject of a page; not every one has a row of its own."""

    pk: str
    pause: Stop | None
    now: datetime

    def __str__(self) -> str:
        return self.pk


def _paused(request: HttpRequest, queue: Named) -> str:
    return _("It is paused already.") if queue.pause else ""


def _not_paused(request: HttpRequest, queue: Named) -> str:
    return "" if queue.pause else _("It is not paused.")


def _scope(queue: Named | None) -> str:
    return f"queue:{queue.pk}" if queue is not None else ""


def _pause_means(request: HttpRequest, queue: Named) -> Sequence[Any]:
    return [_("Nothing more of it starts; queued jobs are taken back."),
            _("Running jobs run on, unless you stop them."),
            _("Waiting uses no attempt.")]  # fmt: skip


def _resume_means(request: HttpRequest, queue: Named) -> Sequence[Any]:
    return [_("Waiting jobs start again, by their priority."),
            _("A blackout window would stay in force.")]  # fmt: skip


@admin.register(Queue)
class QueueAdmin(PlatformAdmin):
    """Where jobs wait."""

    whole_platform = True
    list_template = "jobs/admin/queue_list.html"
    page_template = "jobs/admin/queue.html"
    acts = (
        Act("pause", gettext_lazy("Pause…"), None, _paused, _pause_means,
            PauseForm, "danger", gettext_lazy("The queue is paused."), verb="scope.pause",
            target=_scope),
        Act("resume", gettext_lazy("Resume…"), None, _not_paused, _resume_means,
            tone="primary", done=gettext_lazy("The queue is resumed."), verb="scope.resume",
            target=_scope),
        *limits.ACTS,
    )  # fmt: skip
    list_acts = (
        Act("pause", gettext_lazy("Pause a kind or tenant…"), done=gettext_lazy("It is paused."),
            consequences=lambda r, q: [_("Nothing more of it starts until it is resumed."),
                                       _("Waiting uses no attempt.")],
            form=ScopePauseForm, tone="danger", verb="scope.pause", target=_scope,
            submit=gettext_lazy("Pause")),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        site, who = self.admin_site.name, principal(request)
        return {
            "title": _("Queues"),
            "queues": queue_rows(request, site, overview.queues(by=who)),
            "pauses": [
                {"p": stop, "resume": _resume_button(request, site, stop)}
                for stop in closures.stops()
                if stop.what == "pause" and not stop.scope.startswith("queue:")
                and troubles.covers(who.scope, stop.scope)
            ],
            "services": [] if missing(request, VIEW_WORKER)
            else services_of(services.services(by=who)),
            "list_buttons": self.list_buttons(request),
            "api": api("queue_list"),
            "cli": cli("queues", "list"),
            "jd_regions": {"jd-queues": "jobs/admin/parts/queue_list.html"},
        }  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        if "\x00" in key or not depths.exists(key, principal(request).scope):
            return None
        now, stops = closures.look()
        pauses = [stop for stop in stops if (stop.what, stop.scope) == ("pause", f"queue:{key}")]
        return Named(key, pauses[0] if pauses else None, now)

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        site = self.admin_site.name
        [seen] = overview.queues(by=principal(request), name=row.pk)
        handlers = [h for h in registry.handlers() if h.queue == row.pk]
        return {
            "q": queue_row(request, site, seen),
            "buttons": self.buttons(request, row, row.pk),
            "jobs_url": jobs_url(site, f"queue:{row.pk}"),
            "chart": day_chart(row.now, row.pk),
            "workers": [w for w in workers(request, site) if row.pk in w["seen"].queues],
            "limits": limits.limits_of(request, row.pk),
            "kinds": [
                {"h": h, "timeout": duration(h.timeout),
                 "backoff": type(h.backoff).__name__.lower()} for h in handlers
            ],
            "acts": recent_acts(request, site, target_kind="scope", target_id=f"queue:{row.pk}"),
            "jd_regions": {"jd-queue": "jobs/admin/parts/queue.html"},
            "api": api("queue_get", row.pk),
            "cli": cli("list", f"queue:{row.pk}"),
        }  # fmt: skip


def _resume_button(request: HttpRequest, site: str, pause: Stop) -> list[Button]:
    url = reverse(f"{site}:jobs_pause_act", args=[admin_quote(pause.scope), "resume"])
    return [Button.of(PAUSE_ACTS[0], request, pause, url, request.path)]


def day_chart(now: Any, queue: str) -> dict[str, Any]:
    """Throughput and durations of a queue over a day."""
    step = timedelta(minutes=15)
    points = stats.series(now - timedelta(days=1), now, step=step, queue=queue)[""]
    done = [p.counts.get("succeeded", 0) for p in points]
    bad = [p.counts.get("failed", 0) + p.counts.get("retried", 0) for p in points]
    # The minute that has just begun is counted, but drawn it would look like a breakdown.
    drawn = [p.at for p in points if p.at + step <= now] or [p.at for p in points]
    lines = [
        charts.Line(pgettext("count", "succeeded"), done[: len(drawn)], "green"),
        charts.Line(pgettext("count", "failed"), bad[: len(drawn)], "red"),
    ]
    whole = stats.total(points)
    return {
        "svg": charts.throughput(drawn, lines),
        "legend": charts.legend([charts.Part(line.label, 0, line.tone) for line in lines], values=False),  # noqa: E501
        "done": number(sum(done)), "bad": number(sum(bad)),
        "p50": duration(whole.p50), "p95": duration(whole.p95),
    }  # fmt: skip
