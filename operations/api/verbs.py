"""Cancelling, retrying and deciding about operations."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Schema

from jobs.api import In, auth
from operations import verbs
from operations.api.problems import refusals_as_problems
from operations.api.scope import one
from operations.api.section import section
from operations.api.shown import OperationStatusOut, status_of


class OperationCancelIn(In):
    """The reason to cancel an operation."""

    reason: str
    force: bool = False


class OperationCancelOut(Schema):
    """Whether it is cancelled already, or was asked to stop."""

    state: Literal["cancelled", "cancelling"]


class OperationRetryIn(In):
    """The reason to retry an operation."""

    reason: str


class OperationResolveIn(In):
    """A decision about a doubt or a mismatch."""

    how: Literal["saved", "not_saved", "accept", "recheck"]
    reason: str
    erpId: str = Field("", max_length=80)


@section.post("/operations/{uuid:operation_id}/cancel", "operation_cancel",
    verb="operation.cancel", answer=OperationCancelOut)  # fmt: skip
def operation_cancel(request: HttpRequest, operation_id: UUID, body: OperationCancelIn) -> Any:
    one(request, operation_id)
    with refusals_as_problems():
        state = verbs.cancel(
            operation_id, by=auth.who(request), reason=body.reason, force=body.force
        )
    return {"state": state}


@section.post("/operations/{uuid:operation_id}/retry", "operation_retry",
    verb="operation.retry", answer=OperationStatusOut)  # fmt: skip
def operation_retry(request: HttpRequest, operation_id: UUID, body: OperationRetryIn) -> Any:
    one(request, operation_id)
    with refusals_as_problems():
        verbs.retry(operation_id, by=auth.who(request), reason=body.reason)
    return status_of(one(request, operation_id))


@section.post("/operations/{uuid:operation_id}/resolve", "operation_resolve",
    verb="operation.resolve", answer=OperationStatusOut)  # fmt: skip
def operation_resolve(request: HttpRequest, operation_id: UUID, body: OperationResolveIn) -> Any:
    one(request, operation_id)
    with refusals_as_problems():
        verbs.resolve(
            operation_id, body.how, by=auth.who(request), reason=body.reason, erp_id=body.erpId
        )
    return status_of(one(request, operation_id))
