"""Workers: who lives, on which version, what each does now, and sending them home."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Reason
from jobs.admin.base import PlatformAdmin
from jobs.admin.components import duration
from jobs.admin.copying import api, cli
from jobs.admin.entries import WorkerPage
from jobs.admin.fields import Words
from jobs.admin.recent import recent_acts
from jobs.errors import UnknownTarget
from jobs.operate import services as operate_services
from jobs.operate import workers as operate
from jobs.operate.permissions import VIEW_WORKER
from jobs.operate.services import Service

_ORDER = ("lost", "busy", "draining", "idle", "ended")


class Named:
    """A worker as the subject of a page."""

    def __init__(self, seen: operate.Seen) -> None:
        self.seen, self.pk = seen, seen.name

    def __str__(self) -> str:
        return self.seen.name


def workers(request: HttpRequest, site: str) -> list[dict[str, Any]]:
    """The workers of the last day, those first that want to be looked at."""
    if missing(request, VIEW_WORKER):
        return []
    found = operate.workers(by=principal(request))
    return [
        _row(site, seen)
        for seen in sorted(found, key=lambda w: (_ORDER.index(w.state), w.name))
    ]  # fmt: skip


def _row(site: str, seen: operate.Seen) -> dict[str, Any]:
    return {
        "seen": seen,
        "url": reverse(f"{site}:jobs_workerpage_change", args=[seen.name]),
        "memory": round(seen.memory),
        "jobs": [
            {"kind": job.kind, "since": job.started_at,
             "url": reverse(f"{site}:jobs_job_change", args=[job.id])} for job in seen.jobs
        ],
    }  # fmt: skip


def versions(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The versions that live workers run, those last that do not tell theirs."""
    found = {row["seen"].version for row in rows if row["seen"].state not in _GONE}
    return [*sorted(found - {""}), *([_("unknown")] if "" in found else [])]


_GONE = ("lost", "ended")


def _gone(request: HttpRequest, row: Named) -> str:
    if row.seen.state == "ended":
        return _("It has ended.")
    return _("It is lost: nothing reaches it.") if row.seen.state == "lost" else ""


def _drained(request: HttpRequest, row: Named) -> str:
    return _gone(request, row) or (
        _("It takes no more already.") if row.seen.state == "draining" else ""
    )


class DeployForm(Reason):
    words = {
        "version": Words(
            gettext_lazy("Version"), gettext_lazy("What runs from now on; charts show it.")
        )
    }


@admin.register(WorkerPage)
class WorkerAdmin(PlatformAdmin):
    """All workers on one page, and each on one of its own."""

    view_permission = VIEW_WORKER
    whole_platform = True
    list_template = "jobs/admin/workers.html"
    page_template = "jobs/admin/worker.html"
    acts = (
        Act("drain", gettext_lazy("Drain…"), forbidden=_drained,
            done=gettext_lazy("The worker takes no more."),
            consequences=lambda r, w: [_("It finishes what it has begun and takes no more."),
                          _("Its process stays until it is stopped.")], verb="worker.drain",
            many=True),
        Act("stop", gettext_lazy("Stop…"), forbidden=_gone,
            done=gettext_lazy("The worker was asked to end."),
            consequences=lambda r, w: [_("It drains and ends."),
                          _("Whatever keeps your programs running may start it again.")],
            tone="danger", verb="worker.stop", many=True),
    )  # fmt: skip
    list_acts = (
        Act("deploy", gettext_lazy("Mark a deploy…"), form=DeployForm,
            done=gettext_lazy("Charts show it from now on."),
            consequences=lambda r, w: [_("A line stands in charts at this moment.")],
            verb="deploy.mark"),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        rows = workers(request, self.admin_site.name)
        for row in rows:
            row["buttons"] = self.buttons(request, Named(row["seen"]), row["seen"].name)
        return {
            "title": _("Workers"),
            "workers": rows,
            "mixed": found if len(found := versions(rows)) > 1 else [],
            "list_buttons": self.list_buttons(request),
            "services": services_of(operate_services.services(by=principal(request))),
            "api": api("worker_list"),
            "cli": cli("workers", "list"),
            "jd_regions": {"jd-workers": "jobs/admin/parts/workers.html"},
        }

    def find(self, request: HttpRequest, key: str) -> Any:
        try:
            return Named(operate.worker(key, by=principal(request)))
        except UnknownTarget:
            return None

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        site = self.admin_site.name
        return {
            **_row(site, row.seen),
            "w": row.seen,
            "api": api("worker_get", row.pk),
            "cli": cli("workers", "show", row.pk),
            "buttons": self.buttons(request, row, row.pk),
            "acts": recent_acts(request, site, target_kind="worker", target_id=row.pk),
            "jd_regions": {"jd-worker": "jobs/admin/parts/worker.html"},
        }


SERVICES = {
    "dispatch": gettext_lazy("Handing out jobs"),
    "schedules": gettext_lazy("Serving schedules"),
    "relay": gettext_lazy("Relaying events"),
}


def services_of(found: Sequence[Service]) -> list[dict[str, Any]]:
    """Who does the platform's own work, as the table shows it."""
    return [{"name": SERVICES[one.name], "s": one, "lag": duration(one.lag) if one.lag else ""}
            for one in found]  # fmt: skip
