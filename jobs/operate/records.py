"""Rows of the audit: how one is written, reported to the project, and shown as a row's history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.apps import apps
from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction

from jobs.engine import sql
from jobs.principals import Principal
from jobs.signals import operator_action

Outcome = Literal["done", "denied", "refused"]


@dataclass(frozen=True, slots=True)
class Record:
    """One row of the audit, before the database has given it a time."""

    id: UUID
    principal: Principal
    action: str
    target_kind: str
    target_id: str
    tenant: str
    queue: str
    count: int
    reason: str
    outcome: Outcome
    detail: Mapping[str, Any]
    at: datetime | None = None

    @property
    def actor(self) -> str:
        """The name of the actor."""
        return self.principal.name

    @property
    def via(self) -> str:
        """The face through which he did."""
        return self.principal.via


_INSERT = """
INSERT INTO jobs_audit (id, at, actor, via, action, target_kind, target_id, tenant, queue, count,
  reason, request_id, outcome, detail)
VALUES (%s, jobs_clock(), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb)
ON CONFLICT (id) DO NOTHING
"""


def write(record: Record) -> bool:
    """The row exists; answers whether this call has made it. It is reported after the commit."""
    made = sql.run(
        _INSERT,
        [
            record.id,
            record.actor,
            record.via,
            record.action,
            record.target_kind,
            record.target_id,
            record.tenant,
            record.queue,
            record.count,
            record.reason,
            record.principal.request_id,
            record.outcome,
            json.dumps(dict(record.detail), cls=DjangoJSONEncoder),
        ],
    )
    if made:
        transaction.on_commit(lambda: _tell(record), using=sql.alias(), robust=True)
    return bool(made)


def _tell(record: Record) -> None:
    operator_action.send_robust(sender=Record, record=record)
    if record.outcome == "done" and record.principal.user_id and record.count == 1:
        _mirror(record)


_MODELS = {
    "job": "Job",
    "batch": "Batch",
    "deadletter": "DeadLetter",
    "event": "Outbox",
    "effect": "Effect",
    "schedule": "Schedule",
    "blackout": "Blackout",
    "breaker": "Breaker",
    "limit": "Limiter",
    "meter": "Meter",
    "queue": "Queue",
    "scope": "Pause",
    "worker": "Lease",
}
"""The models whose pages show what was done to a target of this kind."""


def _mirror(record: Record) -> None:
    """The act stands in the history that Django's admin shows of the row."""
    name = _MODELS.get(record.target_kind)
    if name is None or not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import CHANGE, LogEntry
    from django.contrib.contenttypes.models import ContentType

    model = apps.get_model("jobs", name)
    said = f"{record.action}: {record.reason}" if record.reason else record.action
    LogEntry.objects.create(
        user_id=record.principal.user_id,
        content_type=ContentType.objects.get_for_model(model),
        object_id=record.target_id,
        object_repr=f"{record.target_kind} {record.target_id}"[:200],
        action_flag=CHANGE,
        change_message=said,
    )
