"""The order of writes to one order or customer: as accepted, whatever becomes of the first."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

import jobs
from jobs import flow
from operations import states
from operations.clock import Now
from operations.models import Operation, Phase
from operations.verify import MISMATCH

HELD_FOR = 60
"""Seconds after which a write looks again whether the one before it is decided."""


def _others(row: Operation) -> QuerySet[Operation]:
    same = Operation.objects.filter(agent_id=row.agent_id, entity=row.entity)
    return same.exclude(pk=row.pk)


def last_open(agent: str, entity: str) -> list[UUID]:
    """Return the newest write to the same order or customer that has not run, if there is one."""
    if not entity:
        return []
    rows = Operation.objects.filter(
        agent_id=agent, entity=entity, phase__in=[Phase.QUEUED, Phase.IN_PROGRESS]
    )
    return list(rows.order_by("-created_at").values_list("pk", flat=True)[:1])


def wait_for_earlier(row: Operation) -> None:
    """Wait while an earlier write is in doubt, or is in the ERP and was not read back yet.

    One that seems to run has just ended, for no other of the agent runs beside this one. One whose
    values differ does not count: a person may correct them with a later write.
    """
    if not row.is_write or not row.entity:
        return
    undecided = [Phase.IN_PROGRESS, *states.UNDECIDED, Phase.DB_COMMITTED]
    earlier = _others(row).filter(phase__in=undecided, created_at__lt=row.created_at)
    if earlier.exclude(error_code=MISMATCH).exists():
        raise jobs.Snooze(HELD_FOR, f"an earlier write to {row.entity_name} is undecided")


def wake_later(row: Operation) -> None:
    """Let the writes run that have waited until this one was decided."""
    if not row.is_write or not row.entity:
        return
    waiting: Any = _others(row).filter(phase=Phase.QUEUED).values("pk")
    held = jobs.Job.objects.filter(pk__in=waiting, state=jobs.JobState.PENDING, run_at__gt=Now())
    for id in held.order_by("created_at").values_list("pk", flat=True):
        with suppress(jobs.errors.NotAllowed):
            flow.run_now(id, by="operations", reason="the write before it is decided")
