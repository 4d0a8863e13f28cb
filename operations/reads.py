"""Reads on demand: documents, and the lines of an order."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from django.db import transaction

import jobs
from jobs import blobs
from operations import amounts, clients, mirror, payloads, running
from operations.errors import ErpRefused, ErpUnreadable, SessionEnded
from operations.models import Document, Operation, Phase

KINDS = {"download-ddt-pdf": "ddt", "download-invoice-pdf": "invoice"}


def run(ctx: jobs.Context, task: payloads.Task) -> dict[str, Any]:
    """Carry out a read; an expired session is renewed once."""
    row = running.begin(ctx, task)
    if row.phase == Phase.COMPLETED:
        return {"success": True, "data": row.result}
    read = _document if row.type in KINDS else _articles
    limit = clients.DOCUMENT_LIMIT
    with running.attempt(ctx, row), running.session(ctx, row.agent, limit) as erp:
        try:
            return read(ctx, row, erp)
        except SessionEnded:
            running.login(ctx, row.agent, erp)
            return read(ctx, row, erp)


def _document(ctx: jobs.Context, row: Operation, erp: clients.Client) -> dict[str, Any]:
    number = row.data.get("ddtNumber") or row.data["invoiceNumber"]
    content = erp.document(KINDS[row.type], row.data["orderId"], number)
    ctx.checkpoint()
    key = f"operations/{row.pk}.pdf"
    blobs.store().write(key, content)
    with transaction.atomic():
        ctx.fence()
        made = {
            "agent": row.agent, "tenant": row.tenant, "number": number, "blob": key,
            "size": len(content), "sha256": clients.sha256(content),
        }  # fmt: skip
        Document.objects.update_or_create(operation=row, defaults=made)
        return running.complete(ctx, row, {"number": number, "bytes": len(content)})


def _articles(ctx: jobs.Context, row: Operation, erp: clients.Client) -> dict[str, Any]:
    order = row.data["orderId"]
    seen = erp.read("orders", order)
    if seen is None:
        raise ErpRefused("unknown_order")
    ctx.checkpoint()
    lines = seen.get("lines")
    try:
        total, with_vat = (
            amounts.rounded(Decimal(str(seen[n]))) for n in ("total", "totalWithVat")
        )
    except (KeyError, InvalidOperation):
        raise ErpUnreadable("no_totals") from None
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise ErpUnreadable("no_lines")
    with transaction.atomic():
        ctx.fence()
        mirror.put_lines(row.agent_id, order, lines)
        result = {"articlesCount": len(lines), "totalVatAmount": str(with_vat - total),
                  "totalWithVat": str(with_vat)}  # fmt: skip
        return running.complete(ctx, row, result)
