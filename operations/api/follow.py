"""Following operations: lists, and the status of one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema

from jobs.api import paging
from operations.api.scope import agent, one, visible
from operations.api.section import section
from operations.api.shown import (
    OperationPage,
    OperationStatusOut,
    PhaseName,
    shown,
    status_of,
)
from operations.verbs import VIEW_OPERATION


class OperationFilters(Schema):
    """OperationFilters of the list."""

    phase: PhaseName | None = None
    type: str | None = Field(None, max_length=40)


@section.get("/operations", "operation_list", needs=VIEW_OPERATION, answer=OperationPage)
def operation_list(
    request: HttpRequest, response: HttpResponse, filters: Query[OperationFilters],
    wanted: Query[paging.PageIn],
) -> Any:  # fmt: skip
    """List operations, newest first."""
    return _page(request, response, visible(request), filters, wanted)


@section.get(
    "/operations/user/{str:agent_key}", "operation_of_agent", needs=VIEW_OPERATION,
    answer=OperationPage,
)  # fmt: skip
def operation_of_agent(
    request: HttpRequest, response: HttpResponse, agent_key: str, filters: Query[OperationFilters],
    wanted: Query[paging.PageIn],
) -> Any:  # fmt: skip
    """List the operations of an agent, newest first."""
    agent(request, agent_key)
    return _page(request, response, visible(request).filter(agent_id=agent_key), filters, wanted)


def _page(
    request: HttpRequest, response: HttpResponse, rows: Any, filters: OperationFilters,
    wanted: paging.PageIn,
) -> Any:  # fmt: skip
    asked = filters.model_dump(exclude_none=True)
    found = paging.page(
        request, response, rows.filter(**asked), wanted, moment="created_at", filters=asked
    )
    return {**found, "data": [shown(row) for row in found["data"]]}


@section.get(
    "/operations/{uuid:operation_id}/status", "operation_get", needs=VIEW_OPERATION,
    answer=OperationStatusOut,
)  # fmt: skip
def operation_get(request: HttpRequest, operation_id: UUID) -> Any:
    """Get an operation: its phase, its progress and why it waits."""
    return status_of(one(request, operation_id))
