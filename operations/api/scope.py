"""What the caller may see."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest

from jobs.api import Problem, auth
from operations.models import Agent, Operation
from operations.permissions import note_seen, within
from operations.table import OPERATIONS


def visible(request: HttpRequest) -> Any:
    """Return the operations in scope, and note that the agent is there."""
    who = auth.who(request)
    note_seen(who)
    rows = within(who, Operation.objects.all())
    queues = who.scope.queues
    if queues is None:
        return rows
    types = [one.type for one in OPERATIONS.values() if one.queue in queues]
    return rows.filter(type__in=types)


def one(request: HttpRequest, id: UUID) -> Operation:
    """Return the operation; raise a Problem if there is none in scope."""
    row: Operation | None = visible(request).filter(pk=id).first()
    if row is None:
        raise Problem(404, "not-found", "there is no such operation")
    return row


def agent(request: HttpRequest, key: str) -> Agent:
    """Return the agent; raise a Problem if there is none in scope."""
    row: Agent | None = within(auth.who(request), Agent.objects.filter(pk=key)).first()
    if row is None:
        raise Problem(404, "not-found", "there is no such agent")
    return row
