"""Counts, and the dashboard."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from ninja import Schema

import jobs
from jobs.api import auth
from operations.api.agents import MOST, ErpAgentOut, shown_agents
from operations.api.scope import visible
from operations.api.section import section
from operations.api.shown import OperationOut, shown
from operations.clients.chromium import MOST as MOST_CONTEXTS
from operations.clock import now
from operations.models import Agent, Operation, Phase
from operations.permissions import within
from operations.services.browsers import browsers_of
from operations.services.syncs import Standing, standings
from operations.table import OPERATIONS, SYNCS
from operations.verbs import VIEW_OPERATION

RECENT = 20
KINDS = [one.kind for one in OPERATIONS.values()]


class OperationStatsOut(Schema):
    """Counts of operations that have not ended, and of ended ones that are a day old at most."""

    waiting: int
    delayed: int
    """Waiting ones whose time has not come, such as those that are tried again."""
    prioritized: int
    """Waiting writes and reads, which go before syncs."""
    active: int
    completed: int
    failed: int
    cancelled: int
    inDoubt: int


class ErpSyncOut(Schema):
    """How a sync of an agent stands."""

    agent: str
    type: str
    succeededAt: datetime | None
    staleness: float | None
    """Age through target; null while it is not scheduled, because its agent is away."""
    isDue: bool
    failures: int
    pausedUntil: datetime | None


class ErpBrowsersOut(Schema):
    """The browsers of all workers that agents use now."""

    browsers: int
    activeContexts: int
    maxContexts: int


class OperationDashboardOut(Schema):
    """What goes on."""

    queue: OperationStatsOut
    activeJobs: list[OperationOut]
    browserPool: ErpBrowsersOut
    agentStatus: list[ErpAgentOut]
    syncSchedule: list[ErpSyncOut]
    recentHistory: list[OperationOut]


@section.get("/operations/stats", "operation_stats", needs=VIEW_OPERATION, answer=OperationStatsOut)
def operation_stats(request: HttpRequest) -> Any:
    """Count the operations by phase; ended ones of the last day."""
    return _stats(request)


@section.get(
    "/operations/dashboard",
    "operation_dashboard",
    needs=VIEW_OPERATION,
    answer=OperationDashboardOut,
)
def operation_dashboard(request: HttpRequest) -> Any:
    """Show what runs, who waits and what is in the way."""
    rows, who = visible(request), auth.who(request)
    active = rows.filter(phase=Phase.IN_PROGRESS).order_by("started_at")[:200]
    ended = rows.exclude(ended_at=None).order_by("-created_at", "id")[:RECENT]
    agents = list(within(who, Agent.objects.order_by("key"))[:MOST])
    syncing = who.scope.queues is None or "erp-sync" in who.scope.queues
    return {
        "queue": _stats(request),
        "activeJobs": [shown(row) for row in active],
        "browserPool": _browsers(rows),
        "agentStatus": shown_agents(agents, rows),
        "syncSchedule": [_sync(one) for one in standings(agents)] if syncing else [],
        "recentHistory": [shown(row) for row in ended],
    }


def _browsers(rows: QuerySet[Operation]) -> dict[str, int]:
    browsers, contexts = browsers_of(rows)
    return {
        "browsers": browsers,
        "activeContexts": contexts,
        "maxContexts": browsers * MOST_CONTEXTS,
    }


def _sync(one: Standing) -> dict[str, Any]:
    state = one.state
    return {
        "agent": one.agent.pk, "type": one.type,
        "succeededAt": state.succeeded_at if state else None,
        "staleness": None if one.staleness is None else round(one.staleness, 2),
        "isDue": one.is_due, "failures": state.failures if state else 0,
        "pausedUntil": state.paused_until if state else None,
    }  # fmt: skip


def _stats(request: HttpRequest) -> dict[str, int]:
    rows = visible(request)
    open_ = dict(
        rows.filter(phase__in=["queued", "in_progress", "in_doubt", "erp_save_done"])
        .order_by().values_list("phase").annotate(Count("pk"))
    )  # fmt: skip
    waiting = rows.filter(phase=Phase.QUEUED).order_by()
    later = jobs.Job.objects.filter(kind__in=KINDS, state="pending", run_at__gt=now())
    ended = dict(
        rows.filter(created_at__gte=now() - timedelta(days=1)).exclude(ended_at=None)
        .order_by().values_list("phase").annotate(Count("pk"))
    )  # fmt: skip
    return {
        "waiting": open_.get("queued", 0),
        **waiting.aggregate(
            delayed=Count("pk", filter=Q(pk__in=later.values("pk"))),
            prioritized=Count("pk", filter=~Q(type__in=[one.type for one in SYNCS])),
        ),
        "active": open_.get("in_progress", 0) + open_.get("erp_save_done", 0),
        "completed": ended.get("completed", 0), "failed": ended.get("failed", 0),
        "cancelled": ended.get("cancelled", 0), "inDoubt": open_.get("in_doubt", 0),
    }  # fmt: skip
