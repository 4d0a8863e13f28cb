"""Verbs on operations."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from pydantic import Field

import jobs
from jobs.models import Effect
from jobs.verbs import By, permissions, verb
from operations import checking, mirror, states
from operations.acting import acting
from operations.errors import Refused
from operations.models import Operation, Phase
from operations.services import accept
from operations.verbs.declared import OPERATION
from operations.writes import EFFECT

TOO_LATE = "too late: the ERP may already have it"


def _operation(id: UUID) -> Operation:
    found = states.lock(id)
    if found is None:
        raise Refused(404, "not-found", "there is no such operation")
    return found


def _place(id: UUID) -> tuple[str, str]:
    row = Operation.objects.filter(pk=id).first()
    if row is None:
        raise Refused(404, "not-found", "there is no such operation")
    return row.tenant, row.spec.queue


def _wrong_phase(row: Operation) -> Refused:
    return Refused(409, "conflict", f"it is {row.phase}")


@verb("operation.cancel", on=OPERATION, permission=permissions.CANCEL_JOB)
def cancel(
    operation_id: UUID,
    *,
    by: By,
    reason: str,
    force: Annotated[
        bool, Field(description="kill its process if it does not stop by itself")
    ] = False,
) -> str:
    """Cancel an operation: at once while it waits, at its next check while it runs.

    A write whose call has begun is not cancelled, unless it is forced: the ERP is then asked
    whether it has it.
    """
    tenant, queue = _place(operation_id)
    with acting(cancel, operation_id, tenant=tenant, queue=queue, by=by, reason=reason) as act:
        row = _operation(operation_id)
        if row.phase not in (Phase.QUEUED, Phase.IN_PROGRESS):
            too_late = row.phase in (*states.UNDECIDED, Phase.DB_COMMITTED)
            raise Refused(409, "too-late", TOO_LATE) if too_late else _wrong_phase(row)
        begun = Effect.objects.filter(job_id=row.pk, key=EFFECT).exclude(state="failed").exists()
        if begun and not force:
            raise Refused(409, "too-late", TOO_LATE)
        done = jobs.cancel(row.pk, by=by, reason=act.reason, force=force)
        if done.state == jobs.JobState.CANCELLED and not begun:
            states.operation.move(
                row, Phase.CANCELLED, by=act.name, why=act.reason, ended_at=timezone.now()
            )
            if row.is_write:
                mirror.remove_temporary(row)
        act.note(requested=done.requested)
        return "cancelling" if done.requested else "cancelled"


@verb("operation.retry", on=OPERATION, permission=permissions.RETRY_JOB)
def retry(operation_id: UUID, *, by: By, reason: str) -> None:
    """Run a failed or cancelled operation again; one that the ERP has is only finished."""
    tenant, queue = _place(operation_id)
    with acting(retry, operation_id, tenant=tenant, queue=queue, by=by, reason=reason) as act:
        row = _operation(operation_id)
        if row.phase in states.ENDED:
            try:
                with transaction.atomic():
                    accept.reopen(row, by, act.reason)
            except IntegrityError:
                raise Refused(
                    409, "already-submitted", "the pending order has been submitted again"
                ) from None
        elif row.phase in (Phase.ERP_SAVE_DONE, Phase.DB_COMMITTED):
            jobs.retry(row.pk, by=by, reason=act.reason)
        else:
            raise _wrong_phase(row)


@verb("operation.resolve", on=OPERATION, permission=permissions.RESOLVE_DOUBT)
def resolve(
    operation_id: UUID,
    how: Annotated[
        Literal["saved", "not_saved", "accept", "recheck"],
        Field(
            description="of a doubt: the ERP has it, under this number, or does not; of a "
            "mismatch: accept the ERP's values, or compare again after a correction"
        ),
    ],
    *,
    by: By,
    reason: str,
    erp_id: Annotated[
        str, Field(description="the number in the ERP, if it has it", max_length=80)
    ] = "",
) -> None:
    """Decide about a doubtful write, or about values of the ERP that differ."""
    tenant, queue = _place(operation_id)
    with acting(resolve, operation_id, tenant=tenant, queue=queue, by=by, reason=reason) as act:
        row = _operation(operation_id)
        if how in ("saved", "not_saved"):
            if row.phase != Phase.IN_DOUBT and not (how == "saved" and row.has_wrong_number):
                raise _wrong_phase(row)
            if how == "not_saved":
                checking.not_saved(row, by, act.reason)
            elif erp_id.strip():
                checking.saved(row, erp_id.strip(), by, act.reason)
            else:
                raise Refused(422, "invalid", "needs the number in the ERP", [
                    ("/erp_id", "must not be empty")])  # fmt: skip
        else:
            if row.phase != Phase.ERP_SAVE_DONE or not row.mismatch:
                raise _wrong_phase(row)
            row.takes_erp_values, row.error_code = how == "accept", ""
            row.mismatch = row.mismatch if row.takes_erp_values else []
            row.save(update_fields=["takes_erp_values", "error_code", "mismatch"])
            jobs.retry(row.pk, by=by, reason=act.reason)
        act.note(how=how)


@verb("operation.stop_type", on=OPERATION, permission=permissions.CANCEL_JOB, new=True)
def stop_type(
    type: Annotated[str, Field(description="such as sync-customers")], *, by: By, reason: str
) -> int:
    """Cancel all operations of a type that can be cancelled, of all agents; return how many."""
    spec = accept.find_type(type)
    with acting(stop_type, None, tenant="", queue=spec.queue, by=by, reason=reason) as act:
        count = cancel_all(Operation.objects.filter(type=type), by, act.reason)
        act.note(type=type, count=count)
        return count


def cancel_all(rows: QuerySet[Operation], by: By, reason: str) -> int:
    count = 0
    open_ = rows.filter(phase__in=[Phase.QUEUED, Phase.IN_PROGRESS]).order_by("agent", "pk")
    for id in open_.values_list("pk", flat=True):
        try:
            cancel(id, by=by, reason=reason)
            count += 1
        except Refused as refused:
            if refused.status != 409:
                raise
    return count
