"""Operations as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.utils import translation
from ninja import Schema

import jobs
from jobs.api import paging
from operations import waits
from operations.models import Operation, Phase

PhaseName = Literal[
    "queued", "in_progress", "erp_save_done", "db_committed", "completed", "in_doubt", "failed",
    "cancelled",
]  # fmt: skip


class OperationOut(Schema):
    """An operation."""

    id: UUID
    agent: str
    type: str
    entityName: str
    phase: PhaseName
    erpId: str
    errorCode: str
    result: dict[str, Any]
    askedBy: str
    createdAt: datetime
    endedAt: datetime | None


class OperationPage(Schema):
    """A page of operations, newest first."""

    data: list[OperationOut]
    page: paging.PageOut


class OperationStepOut(Schema):
    """A step of an operation."""

    phase: str
    at: datetime
    by: str
    why: str


class OperationStatusOut(OperationOut):
    """An operation, how far it is, and why it waits."""

    progress: float | None
    label: str
    waits: str
    mismatch: list[dict[str, str]]
    steps: list[OperationStepOut]


def shown(row: Operation) -> dict[str, Any]:
    """Return an operation as shown."""
    return {
        "id": row.pk, "agent": row.agent_id, "type": row.type, "entityName": row.entity_name,
        "phase": row.phase, "erpId": row.erp_id, "errorCode": row.error_code,
        "result": row.result, "askedBy": row.asked_by, "createdAt": row.created_at,
        "endedAt": row.ended_at,
    }  # fmt: skip


def status_of(row: Operation) -> dict[str, Any]:
    """Return an operation with its progress, its steps and why it waits."""
    job = jobs.Job.objects.filter(pk=row.pk).first()
    with translation.override("en"):
        waited = waits.why(row) if row.phase == Phase.QUEUED and job else ""
    # While it waits, its job still shows how far an earlier attempt came.
    progress: Any = (job.progress if job and row.phase != Phase.QUEUED else None) or {}
    done, total = progress.get("done"), progress.get("total")
    return {
        **shown(row),
        "progress": round(100 * done / total, 1) if done is not None and total else None,
        "label": progress.get("note", "") or "",
        "waits": waited,
        "mismatch": row.mismatch,
        "steps": list(row.steps.order_by("id").values("phase", "at", "by", "why")),
    }
