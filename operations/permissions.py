"""The agents that a principal may see and act for."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet
from django.utils import timezone

from operations.errors import Refused
from operations.models import Agent
from operations.models.agent import PREFIX
from operations.table import OPERATIONS

if TYPE_CHECKING:
    from jobs.acts import By, Principal


QUEUES = frozenset(one.queue for one in OPERATIONS.values())
SEEN_EVERY = timedelta(minutes=1)


def within(
    who: Principal, rows: QuerySet[Any], queues: Collection[str] = QUEUES
) -> QuerySet[Any]:  # fmt: skip
    """Restrict rows with a tenant to those that the principal may see.

    A principal that is limited to queues sees them if it has one of ``queues``.
    """
    own = who.scope.queues
    if own is not None and not set(own) & set(queues):
        return rows.none()
    if who.scope.tenants is None:
        return rows
    return rows.filter(tenant__in=sorted(who.scope.tenants))


def note_seen(who: Principal) -> None:
    """Note that the agent is there whose user this is, or to whom alone its key is limited."""
    tenants, now = who.scope.tenants, timezone.now()
    own = Q(**{f"user__{get_user_model().USERNAME_FIELD}": who.name})
    if tenants is not None and len(tenants) == 1:
        own |= Q(tenant__in=tenants)
    rows = Agent.objects.filter(own).exclude(last_seen_at__gt=now - SEEN_EVERY)
    rows.update(last_seen_at=now)


def agent_for(by: By, key: str, queue: str) -> Agent:
    """Return the agent to act for; raise Refused where there is none, or it is not allowed.

    Without a key it is the only agent that the principal may see.
    """
    from operations.verbs import ACT_FOR_AGENTS  # which imports this module

    if not isinstance(by, str):
        own = sorted(t for t in by.scope.tenants or () if t.startswith(PREFIX))
        if not key and len(own) == 1:
            key = own[0].removeprefix(PREFIX)
        if not key:
            raise Refused(422, "invalid", "needs an agent", [("/agent", "must be named")])
        if not by.scope.covers(f"{PREFIX}{key}", queue):
            raise Refused(404, "not-found", "there is no such agent", [("/agent", "is unknown")])
        if by.scope.tenants is None and not by.may(ACT_FOR_AGENTS):
            raise Refused(403, "forbidden", f"needs the permission {ACT_FOR_AGENTS}")
    found = Agent.objects.filter(pk=key).first()
    if found is None:
        raise Refused(404, "not-found", "there is no such agent", [("/agent", "is unknown")])
    return found
