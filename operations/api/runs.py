"""Sync runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import F
from django.http import HttpRequest, HttpResponse
from ninja import Query, Schema

from jobs.api import Problem, auth, paging
from operations.api.section import section
from operations.models import SyncRun
from operations.permissions import within
from operations.verbs import VIEW_RUN


class SyncRunOut(Schema):
    """A run of a sync."""

    id: UUID
    agent: str
    type: str
    outcome: Literal["running", "done", "held", "allowed", "rejected", "replaced", "failed"]
    processed: int
    new: int
    updated: int
    deleted: int
    rejected: int
    held: int
    errorCode: str
    startedAt: datetime
    endedAt: datetime | None


class RejectedRowOut(Schema):
    """A row of an export that could not be read; its old version stays."""

    number: int
    columns: list[str]
    """Its invalid columns; ``*`` if it is not a row at all."""


class SyncRunDetailOut(SyncRunOut):
    """A run with what it could not read, and what it would delete."""

    rejectedRows: list[RejectedRowOut]
    """The first hundred at most."""
    heldKeys: list[str]


class SyncRunPage(Schema):
    """A page of runs, newest first."""

    data: list[SyncRunOut]
    page: paging.PageOut


@section.get("/operations/runs", "syncrun_list", needs=VIEW_RUN, answer=SyncRunPage)
def syncrun_list(
    request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]
) -> Any:  # fmt: skip
    """List runs of syncs, newest first."""
    rows = SyncRun.objects.annotate(id=F("operation_id"))
    rows = within(auth.who(request), rows, ["erp-sync"])
    found = paging.page(request, response, rows, wanted, moment="started_at", filters={})
    return {**found, "data": [_run(row) for row in found["data"]]}


@section.get("/operations/runs/{uuid:syncrun_id}", "syncrun_get", needs=VIEW_RUN,
    answer=SyncRunDetailOut)  # fmt: skip
def syncrun_get(request: HttpRequest, syncrun_id: UUID) -> Any:
    """Get a run: its rejected rows, and the keys of the rows that it would delete."""
    row = within(auth.who(request), SyncRun.objects.filter(pk=syncrun_id), ["erp-sync"]).first()
    if row is None:
        raise Problem(404, "not-found", "there is no such sync run")
    rejected = [{"number": number, "columns": columns} for number, columns in row.rejected]
    return {**_run(row), "rejectedRows": rejected, "heldKeys": row.held}


def _run(row: SyncRun) -> dict[str, Any]:
    return {
        "id": row.pk, "agent": row.agent_id, "type": row.type, "outcome": row.outcome,
        "processed": row.processed, "new": row.new, "updated": row.updated,
        "deleted": row.deleted, "rejected": row.rejected_count, "held": len(row.held),
        "errorCode": row.error_code, "startedAt": row.started_at, "endedAt": row.ended_at,
    }  # fmt: skip
