"""Workers: who lives, who has fallen silent, and what each does now."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.admin.access import principal
from jobs.admin.base import PlatformAdmin
from jobs.admin.entries import WorkerPage
from jobs.engine import rq, sql
from jobs.models import Job, Lease

KEPT = timedelta(days=1)
MOST = 200


def workers(request: HttpRequest, site: str) -> list[dict[str, Any]]:
    """Workers with their executors together; those that ended lately are last."""
    [(now,)] = sql.rows("SELECT jobs_clock()")
    leases = Lease.objects.using(sql.alias()).exclude(dead_at__lt=now - KEPT)
    found: dict[str, dict[str, Any]] = {}
    rows = list(leases.order_by("-until", "owner")[:MOST])
    scope = principal(request).scope.queues
    for lease in rows:
        if scope is not None and not scope & set(lease.queues):
            continue
        one = found.setdefault(
            f"{lease.worker}@{lease.host}",
            {"name": lease.worker, "host": lease.host, "pids": [], "queues": list(lease.queues),
             "slots": 0, "executors": 0, "started": lease.started_at, "until": lease.until,
             "state": "stopped", "jobs": [], "owners": []},
        )  # fmt: skip
        one["owners"].append(lease.owner)
        state = _state(lease, now)
        if _ORDER.index(state) < _ORDER.index(one["state"]):
            one["state"] = state
        if state not in ("stopped",):
            one["slots"] += lease.slots
            one["executors"] += 1
            if lease.pid not in one["pids"]:
                one["pids"].append(lease.pid)
    _attach(request, site, list(found.values()))
    return sorted(found.values(), key=lambda w: (_ORDER.index(w["state"]), w["name"]))


_ORDER = ("silent", "busy", "draining", "idle", "stopped")


def _state(lease: Lease, now: Any) -> str:
    if lease.dead_at is not None:
        return "stopped"
    if lease.until <= now:
        return "silent"
    return "draining" if lease.draining else "idle"


def _attach(request: HttpRequest, site: str, listed: list[dict[str, Any]]) -> None:
    """Every worker knows the jobs it runs."""
    by_owner = {owner: worker for worker in listed for owner in worker["owners"]}
    queues = sorted({queue for worker in listed for queue in worker["queues"]})
    running = (
        Job.objects.using(sql.alias())
        .filter(state="running", queue__in=queues)
        .only("id", "kind", "started_at", "owner", "tenant")[:500]
    )
    tenants = principal(request).scope.tenants
    for job in running:
        worker = by_owner.get(job.owner) if job.owner else None
        if worker is None:
            continue
        if worker["state"] == "idle":
            worker["state"] = "busy"
        if tenants is None or job.tenant in tenants:
            url = reverse(f"{site}:jobs_job_change", args=[job.pk])
            worker["jobs"].append({"kind": job.kind, "since": job.started_at, "url": url})


@admin.register(WorkerPage)
class WorkerAdmin(PlatformAdmin):
    """All workers on one page."""

    view_permission = "view_worker"
    whole_platform = True
    list_template = "jobs/admin/workers.html"

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        return {
            "title": _("Workers"),
            "workers": workers(request, self.admin_site.name),
            "services": _services(),
            "jd_regions": {"jd-workers": "jobs/admin/parts/workers.html"},
        }


def _services() -> list[dict[str, Any]]:
    try:
        alive = len(rq.live_dispatchers())
        note = _("%(n)d running") % {"n": alive}
    except rq.Unavailable:
        alive, note = 0, _("Redis cannot be reached")
    return [{"name": _("Dispatchers"), "state": "active" if alive else "silent", "note": note}]
