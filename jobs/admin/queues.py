"""Queues: what waits in each, who works, what holds it; pausing and resuming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import quote as admin_quote
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import registry
from jobs.admin import charts, depths, limits
from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Button, Until
from jobs.admin.base import PlatformAdmin
from jobs.admin.components import duration, number
from jobs.admin.copying import api, cli
from jobs.admin.flow import PAUSE_ACTS
from jobs.admin.overview import jobs_url, sparks
from jobs.admin.recent import recent_acts
from jobs.admin.workers import services_of, workers
from jobs.engine.closures import Stop
from jobs.models import Queue
from jobs.operate import pauses, services, stats


class PauseForm(Until):
    """Until when, and what becomes of what runs."""

    stop = forms.BooleanField(
        label=gettext_lazy("Also stop what runs"), required=False,
        help_text=gettext_lazy("Running jobs are asked to stop, and wait like the others."),
    )  # fmt: skip


class ScopePauseForm(PauseForm):
    """The same for a kind, a tenant or a key."""

    scope = forms.CharField(
        label=gettext_lazy("Scope"), max_length=200,
        help_text=gettext_lazy("queue:<name>, kind:<kind>, tenant:<tenant> or key:<key>"),
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.order_fields(["scope"])


@dataclass(frozen=True, slots=True)
class Named:
    """A queue by its name; most have a row, those just heard of have none yet."""

    pk: str
    pause: Stop | None

    def __str__(self) -> str:
        return self.pk


def _paused(request: HttpRequest, queue: Named) -> str:
    return _("It is paused already.") if queue.pause else ""


def _not_paused(request: HttpRequest, queue: Named) -> str:
    return "" if queue.pause else _("It is not paused.")


def _pause(request: HttpRequest, queue: Named, given: dict[str, Any]) -> str:
    _close(f"queue:{queue.pk}", request, given)
    return _("The queue is paused.")


def _pause_scope(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    _close(given["scope"], request, given)
    return _("It is paused.")


def _close(scope: str, request: HttpRequest, given: dict[str, Any]) -> None:
    pauses.pause(
        scope, by=principal(request), reason=given["reason"], until=given["until"],
        running="stop" if given["stop"] else "finish",
    )  # fmt: skip


def _resume(request: HttpRequest, queue: Named, given: dict[str, Any]) -> str:
    pauses.resume(f"queue:{queue.pk}", by=principal(request), reason=given["reason"])
    return _("The queue goes on.")


def _pause_means(request: HttpRequest, queue: Named) -> Sequence[Any]:
    return [_("Nothing more of it starts; what is handed out already is taken back."),
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
        Act("pause", gettext_lazy("Pause…"), "pause_queue", _pause, _paused, _pause_means,
            PauseForm, "danger", verb="scope.pause"),
        Act("resume", gettext_lazy("Resume…"), "pause_queue", _resume, _not_paused, _resume_means,
            tone="primary", verb="scope.resume"),
        *limits.ACTS,
    )  # fmt: skip
    list_acts = (
        Act("pause", gettext_lazy("Pause a kind or tenant…"), "pause_queue", _pause_scope,
            consequences=lambda r, q: [_("Nothing more of it starts until it is resumed."),
                                       _("Waiting uses no attempt.")],
            form=ScopePauseForm, tone="danger", verb="scope.pause",
            submit=gettext_lazy("Pause")),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        site = self.admin_site.name
        now, stops = depths.closed(request)
        lines = sparks(now)
        rows = [
            {"q": q, "spark": lines.get(q.name) or charts.spark([], _("nothing ended")),
             "url": jobs_url(site, f"queue:{q.name}"), "page": self.page_url(q.name),
             "no_pause": missing(request, "pause_queue")}
            for q in depths.queues_now(request)
        ]  # fmt: skip
        return {
            "title": _("Queues"),
            "queues": rows,
            "pauses": [
                {"p": p, "resume": _resume_button(request, site, p)}
                for p in stops if p.what == "pause" and not p.scope.startswith("queue:")
            ],
            "services": [] if missing(request, "view_worker")
            else services_of(services.services(by=principal(request))),
            "list_buttons": self.list_buttons(request),
            "api": api("queue_list"),
            "cli": cli("queues", "list"),
            "jd_regions": {"jd-queues": "jobs/admin/parts/queue_list.html"},
        }  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        if not depths.is_queue(request, key):
            return None
        stops = depths.closed(request)[1]
        pause = next((s for s in stops if (s.what, s.scope) == ("pause", f"queue:{key}")), None)
        return Named(key, pause)

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        site = self.admin_site.name
        now, _stops = depths.closed(request)
        one = next(iter(depths.queues_now(request, row.pk)))
        handlers = [h for h in registry.handlers() if h.queue == row.pk]
        return {
            "q": one,
            "buttons": self.buttons(request, row, row.pk),
            "jobs_url": jobs_url(site, f"queue:{row.pk}"),
            "chart": day_chart(now, row.pk),
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
        charts.Line(_("succeeded"), done[: len(drawn)], "green"),
        charts.Line(_("failed"), bad[: len(drawn)], "red"),
    ]
    whole = stats.total(points)
    return {
        "svg": charts.throughput(drawn, lines),
        "legend": charts.legend([charts.Part(line.label, 0, line.tone) for line in lines], values=False),  # noqa: E501
        "done": number(sum(done)), "bad": number(sum(bad)),
        "p50": duration(whole.p50), "p95": duration(whole.p95),
    }  # fmt: skip
