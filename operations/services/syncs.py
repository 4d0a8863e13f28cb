"""Enqueueing syncs: on demand, after a write, and by their staleness."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Q

import jobs
from jobs import flow
from operations import payloads
from operations.clock import now
from operations.config import settings
from operations.models import Agent, Operation, Phase, SyncState
from operations.services import accept
from operations.table import OPERATIONS, SERVICE_ACCOUNT, SYNCS, Family

DEBOUNCE = timedelta(seconds=10)
AT_MOST = timedelta(seconds=60)
ACTIVE = timedelta(hours=2)
IDLE = timedelta(hours=24)
FAILURES_IN_ROW, PAUSE = 3, timedelta(hours=2)
FAILURES_OF_DAY, LONG_PAUSE = 6, timedelta(hours=24)
BY = "scheduler"


def resync(agent: Agent, type: str) -> None:
    """Enqueue the sync that follows a write, once for many, unless a scheduled one waits."""
    waiting = Operation.objects.filter(agent=agent, type=type, phase=Phase.QUEUED)
    if waiting.exclude(asked_by=f"resync:{type}").exists():
        return
    unique = jobs.Unique(f"resync-{type}-{agent.pk}", "waiting", at_most=AT_MOST)
    spec, data = OPERATIONS[type], payloads.Nothing()
    accept._insert(
        spec, {}, agent, f"resync:{type}", "", payloads.digest(agent.pk, type, data), unique,
        delay=DEBOUNCE,
    )  # fmt: skip


def sync_now(agent: Agent, type: str, by: str) -> accept.Accepted:
    """Enqueue a sync, or join the one that is under way; this ends its pause."""
    SyncState.objects.filter(agent=agent, type=type).update(paused_until=None)
    return accept.accept(OPERATIONS[type], payloads.Nothing(), agent, by)


def failed(agent: str, type: str) -> None:
    """Count a failed sync; too many pause the type for the agent."""
    moment = now()
    state, _made = SyncState.objects.select_for_update().get_or_create(agent_id=agent, type=type)
    if state.counting_since is None or moment - state.counting_since > IDLE:
        state.counting_since, state.failed_today = moment, 0
    state.failures += 1
    state.failed_today += 1
    if state.failed_today >= FAILURES_OF_DAY:
        state.paused_until, state.failures = moment + LONG_PAUSE, 0
    elif state.failures >= FAILURES_IN_ROW:
        state.paused_until, state.failures = moment + PAUSE, 0
    state.save()


@dataclass(frozen=True, slots=True)
class Standing:
    """How a sync of an agent stands."""

    agent: Agent
    type: str
    state: SyncState | None
    staleness: float | None
    """Age through target; None while it is not scheduled, because its agent is away or inactive."""
    is_paused: bool

    @property
    def is_first(self) -> bool:
        """Whether it has never succeeded: its age is then that of the agent."""
        return self.state is None or self.state.succeeded_at is None

    @property
    def is_due(self) -> bool:
        """Whether the next round enqueues it, if nothing is in its way."""
        return not self.is_paused and self.staleness is not None and (
            self.is_first or self.staleness >= 1
        )  # fmt: skip


def standings(agents: Collection[Agent]) -> list[Standing]:
    """Return how the syncs of agents stand, in two statements."""
    moment = now()
    anybody = Agent.objects.filter(is_active=True).aggregate(last=Max("last_seen_at"))["last"]
    states = {(s.agent_id, s.type): s for s in SyncState.objects.filter(agent__in=agents)}
    found = []
    for agent in agents:
        is_shared = agent.pk == SERVICE_ACCOUNT
        last = anybody if is_shared else agent.last_seen_at
        for spec in SYNCS:
            if spec.is_shared == is_shared:
                state = states.get((agent.pk, spec.type))
                until = state.paused_until if state else None
                age = (state.succeeded_at if state else None) or agent.created_at
                stale = _staleness(spec.type, last, age, moment) if agent.is_active else None
                is_paused = until is not None and until > moment
                found.append(Standing(agent, spec.type, state, stale, is_paused))
    return found


def schedule() -> int:
    """Enqueue the syncs that are due, stalest first; return how many."""
    if not settings().ERP_URL:
        return 0
    paused = {pause.scope for pause in flow.paused()}
    running = set(
        Operation.objects.filter(
            type__in=[one.type for one in SYNCS], phase__in=[Phase.QUEUED, Phase.IN_PROGRESS]
        ).values_list("agent_id", "type")
    )
    writing = _writing()
    due = [
        (one.is_first, one.staleness or 0, one.agent, one.type)
        for one in standings(list(Agent.objects.filter(is_active=True)))
        if one.is_due
        and (one.agent.pk, one.type) not in running
        and one.agent.pk not in writing
        and f"key:agent:{one.agent.pk}" not in paused
    ]
    for _first, _stale, agent, type in sorted(due, key=lambda one: one[:2], reverse=True):
        accept.accept(OPERATIONS[type], payloads.Nothing(), agent, BY)
    return len(due)


def _writing() -> set[str]:
    writes = [one.type for one in OPERATIONS.values() if one.family is Family.WRITE]
    rows = Operation.objects.filter(
        Q(type__in=writes), phase__in=[Phase.QUEUED, Phase.IN_PROGRESS]
    )  # fmt: skip
    return set(rows.values_list("agent_id", flat=True))


def _staleness(
    type: str, last_seen: datetime | None, since: datetime, moment: datetime
) -> float | None:
    """Return age through target; None for agents who are offline."""
    if last_seen is None or moment - last_seen > IDLE:
        return None
    active, idle = settings().target(type)
    minutes = active if moment - last_seen <= ACTIVE else idle
    return (moment - since) / timedelta(minutes=minutes) if minutes else None
