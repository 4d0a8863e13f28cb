"""Writes: each is made once in the ERP, read back, and stored here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction

import jobs
from operations import mirror, order, payloads, running, states, verify
from operations.clients import Client
from operations.errors import ErpRefused, ErpUnreadable, SessionEnded
from operations.models import Operation, Phase
from operations.progress import Progress
from operations.services import syncs

EFFECT = "erp"
DEBOUNCE = 10
RESYNC_AT_MOST = timedelta(seconds=60)
LOGINS = 2


def run(ctx: jobs.Context, task: payloads.Task) -> dict[str, Any]:
    """Carry out a write; what the ERP has already is only finished."""
    row = running.begin(ctx, task)
    if row.phase == Phase.COMPLETED:
        return {"success": True, "data": row.result}
    data = payloads.parse(row.type, row.data)
    if isinstance(data, payloads.SubmitOrder) and all(i.is_in_stock for i in data.items):
        return _from_warehouse(ctx, row)
    report = Progress(ctx, row)
    with running.attempt(ctx, row), running.session(ctx, row.agent) as erp:
        if row.phase in (Phase.IN_PROGRESS, Phase.IN_DOUBT):
            report(10, 100, "create")
            _save(ctx, row, data, erp)
        report(70, 100, "save")
        seen = _read_back(row, data, erp)
        _compare(ctx, row, data, seen)
        result = _finish(ctx, row, seen)
    ctx.progress(100, 100, "done")
    return result


def _save(ctx: jobs.Context, row: Operation, data: payloads.Data, erp: Client) -> None:
    """Make the write, unless it turns out to have happened; the ERP then has it."""
    body = data.as_json()
    if isinstance(data, payloads.EditOrder) and data.version is None:
        order = erp.read("orders", data.orderId)
        if order is None:
            raise ErpRefused("unknown_order")
        body["version"] = order.get("version")
    reference = str(row.pk)
    for left in reversed(range(LOGINS)):
        try:
            outcome = ctx.effect(
                EFFECT,
                lambda: {"id": erp.write(row.type, reference, body)},
                probe=lambda intent: probe(erp, str(intent.request["reference"])),
                request={"reference": reference},
                definite=(ErpRefused,),
            )
            break
        except SessionEnded:
            if not left:
                raise
            running.login(ctx, row.agent, erp)
    with transaction.atomic():
        ctx.fence()
        states.operation.move(
            row, Phase.ERP_SAVE_DONE, by=running.WHO, erp_id=str(outcome["id"]), error_code=""
        )


def probe(erp: Client, reference: str) -> Any:
    """Ask the ERP whether it has the write with this reference."""
    try:
        found = erp.find(reference)
    except (ErpRefused, ErpUnreadable) as error:
        return jobs.effects.Unknown(f"the ERP cannot search: {error.code}")
    if found is None:
        return jobs.effects.NotHappened()
    return jobs.effects.Happened({"id": found.id})


def _read_back(row: Operation, data: payloads.Data, erp: Client) -> dict[str, Any] | None:
    id = getattr(data, "orderId", "") or getattr(data, "customerProfile", "") or row.erp_id
    return erp.read(verify.what_of(row), id)


def _compare(
    ctx: jobs.Context, row: Operation, data: payloads.Data, seen: dict[str, Any] | None
) -> None:  # fmt: skip
    """Let a person decide where the ERP has something else than it was sent."""
    if row.takes_erp_values:
        return
    found = verify.differences(row, data, seen)
    if found or row.mismatch:
        with transaction.atomic():
            ctx.fence()
            row.error_code, row.mismatch = verify.MISMATCH if found else "", found
            row.save(update_fields=["error_code", "mismatch"])
            if found:
                order.wake_later(row)
    if found:
        raise jobs.Unrecoverable(verify.MISMATCH)


def _finish(ctx: jobs.Context, row: Operation, seen: dict[str, Any] | None) -> dict[str, Any]:
    noun = "customerProfile" if "customer" in row.type else "orderId"
    with transaction.atomic():
        ctx.fence()
        mirror.store_write(row, row.data, seen)
        result = running.complete(ctx, row, {noun: row.erp_id})
        syncs.resync(row.agent, row.spec.resync)
    return result


def _from_warehouse(ctx: jobs.Context, row: Operation) -> dict[str, Any]:
    """Complete an order whose lines are all in stock: the ERP gets no order."""
    with transaction.atomic():
        ctx.fence()
        mirror.remove_temporary(row)
        return running.complete(ctx, row, {"orderId": f"warehouse-{row.pk}"})
