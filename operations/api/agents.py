"""Agents."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.db.models import Count, QuerySet
from django.http import HttpRequest
from ninja import Schema

from jobs import flow
from jobs.api import auth
from jobs.models import Breaker
from operations.api.scope import visible
from operations.api.section import section
from operations.models import Agent, Operation, Phase
from operations.permissions import within
from operations.verbs import VIEW_AGENT

MOST = 200
"""Agents of an answer."""


class ErpAgentOut(Schema):
    """An agent: what runs, what waits, and whether anything is in the way."""

    key: str
    client: Literal["http", "browser"]
    login: Literal["untested", "good", "refused", "testing"]
    active: bool
    paused: str
    circuit: str
    running: str
    waiting: int
    lastSeenAt: datetime | None


@section.get("/operations/agents", "agent_list", needs=VIEW_AGENT, answer=list[ErpAgentOut])
def agent_list(request: HttpRequest) -> Any:
    """List the agents, by key."""
    agents = within(auth.who(request), Agent.objects.order_by("key"))
    return shown_agents(list(agents[:MOST]), visible(request))


def shown_agents(agents: list[Agent], operations: QuerySet[Operation]) -> list[dict[str, Any]]:
    """Return the agents as shown, in four statements however many there are."""
    keys = [agent.pk for agent in agents]
    paused = {pause.scope: pause.reason for pause in flow.paused()}
    circuits = dict(
        Breaker.objects.filter(name__in=[f"erp:{key}" for key in keys]).values_list("name", "state")
    )
    rows = operations.filter(agent_id__in=keys)
    running = dict(rows.filter(phase=Phase.IN_PROGRESS).values_list("agent_id", "type"))
    waiting = dict(
        rows.filter(phase=Phase.QUEUED).order_by().values_list("agent_id").annotate(Count("pk"))
    )
    return [
        {
            "key": agent.pk, "client": agent.client,
            "login": agent.login, "active": agent.is_active,
            "paused": paused.get(f"key:agent:{agent.pk}", ""),
            "circuit": circuits.get(f"erp:{agent.pk}", "closed"),
            "running": running.get(agent.pk, ""), "waiting": waiting.get(agent.pk, 0),
            "lastSeenAt": agent.last_seen_at,
        }
        for agent in agents
    ]  # fmt: skip
