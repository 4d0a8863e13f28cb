"""Workers: who is there, and what they are asked to do."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Schema

from jobs.api import auth
from jobs.api.sections import Section
from jobs.operate import services, targets, workers
from jobs.operate.permissions import VIEW_WORKER
from jobs.principals import Principal

section = Section("workers", {"worker": "/workers"})


class CurrentOut(Schema):
    """A job that a worker runs."""

    id: UUID
    kind: str
    queue: str
    tenant: str
    started_at: datetime


class WorkerOut(Schema):
    """A worker as it reported itself last, and those of its jobs that you may see."""

    name: str
    host: str
    pid: int
    version: str
    queues: list[str]
    slots: int
    memory_mib: float
    state: Literal["busy", "idle", "draining", "lost", "ended"]
    asked: str
    asked_by: str
    started_at: datetime
    seen_at: datetime
    jobs: list[CurrentOut]


def worker(found: workers.Seen) -> dict[str, Any]:
    """The worker as it is told."""
    names = set(WorkerOut.model_fields) - {"memory_mib"}
    return {**{name: getattr(found, name) for name in names}, "memory_mib": found.memory}


@section.get("/workers", "worker_list", needs=VIEW_WORKER, answer=list[WorkerOut])
def worker_list(request: HttpRequest) -> Any:
    """The workers of the last day, by name; for callers who see all tenants."""
    who = auth.who(request)
    if who.scope.tenants is not None:
        return []
    return [worker(found) for found in workers.workers(by=who)]


class HolderOut(Schema):
    """A process that does some of the platform's own work."""

    name: str
    since: datetime | None


class ServiceOut(Schema):
    """Some of the platform's own work: who does it, and how far it is behind."""

    name: Literal["dispatch", "schedules", "relay"]
    state: Literal["active", "late", "silent"]
    holders: list[HolderOut]
    lag_ms: int
    last_at: datetime | None


@section.get("/services", "service_list", needs=VIEW_WORKER, answer=list[ServiceOut])
def service_list(request: HttpRequest) -> Any:
    """Processes that dispatch, schedule and relay; empty for callers who see only some tenants."""
    return [
        {"name": s.name, "state": s.state, "holders": s.holders, "lag_ms": round(s.lag * 1000),
         "last_at": s.last_at}
        for s in services.services(by=auth.who(request))
    ]  # fmt: skip


@section.get("/workers/{name}", "worker_get", needs=VIEW_WORKER, answer=WorkerOut)
def worker_get(request: HttpRequest, name: str) -> Any:
    """One worker."""
    who = auth.who(request)
    if who.scope.tenants is not None:
        raise targets.unknown("worker", name)
    return worker(workers.worker(name, by=who))


def _after(who: Principal, name: str, found: None) -> Any:
    """Return the worker as it is now, also to those who may act on it without seeing the others."""
    return worker(workers.worker(name, by="api"))


section.does(
    "worker.drain",
    "/workers/{name}/drain",
    "worker_drain",
    answer={202: WorkerOut},
    show=_after,
)


section.does(
    "worker.stop",
    "/workers/{name}/stop",
    "worker_stop",
    answer={202: WorkerOut},
    show=_after,
)
