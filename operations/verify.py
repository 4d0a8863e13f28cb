"""Reading back a write: whether the ERP has what it was sent."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from operations import amounts
from operations.models import Operation
from operations.payloads import Customer, Data, EditOrder, SubmitOrder

Difference = dict[str, str]
MISMATCH = "verification_mismatch"
"""The error of an operation whose values differ."""


def what_of(row: Operation) -> str:
    """Return what the ERP is asked to read back."""
    return "customers" if "customer" in row.type else "orders"


def differences(row: Operation, data: Data, seen: dict[str, Any] | None) -> list[Difference]:
    """Return where the ERP's ids, quantities, amounts and state differ from what was sent."""
    if row.type == "delete-order":
        return [] if seen is None else [_difference("state", "deleted", seen.get("state"))]
    if seen is None:
        return [_difference("id", row.erp_id, None)]
    if isinstance(data, SubmitOrder):
        lines = [(i.articleCode, i.quantity, amounts.rounded(i.amount)) for i in data.items]
        found = _of_lines(lines, seen)
        found += _of_amount("total", data.total, seen.get("total"))
        if data.targetTotalWithVAT is not None:
            found += _of_amount(
                "targetTotalWithVAT", data.targetTotalWithVAT, seen.get("totalWithVat")
            )
        if seen.get("customerId") != data.customerId:
            found.append(_difference("customerId", data.customerId, seen.get("customerId")))
        return found
    if isinstance(data, EditOrder):
        return _of_lines(
            [(i.articleCode, i.quantity, amounts.rounded(i.lineAmount)) for i in data.updatedItems],
            seen,
        )
    if isinstance(data, Customer):
        sent = data.as_json()
        sent.pop("customerProfile", None)
        return [
            _difference(name, value, seen.get(name))
            for name, value in sent.items() if seen.get(name) != value
        ]  # fmt: skip
    if seen.get("state") != "inviato_verona":
        return [_difference("state", "inviato_verona", seen.get("state"))]
    return []


def _difference(field: str, sent: object, got: object) -> Difference:
    return {"field": field, "sent": str(sent), "erp": "" if got is None else str(got)}


def _of_amount(field: str, sent: Decimal, got: object) -> list[Difference]:
    try:
        is_equal = amounts.rounded(Decimal(str(got))) == amounts.rounded(sent)
    except InvalidOperation:
        is_equal = False
    return [] if is_equal else [_difference(field, sent, got)]


def _of_lines(
    sent: list[tuple[str, Decimal, Decimal]], seen: dict[str, Any]
) -> list[Difference]:  # fmt: skip
    lines = seen.get("lines")
    if not isinstance(lines, list) or len(lines) != len(sent):
        return [_difference("lines", len(sent), len(lines) if isinstance(lines, list) else None)]
    found = []
    for number, ((code, quantity, amount), line) in enumerate(zip(sent, lines, strict=True), 1):
        line = line if isinstance(line, dict) else {}
        if line.get("articleCode") != code:
            found.append(_difference(f"lines/{number}/articleCode", code, line.get("articleCode")))
        found += _of_amount(f"lines/{number}/quantity", quantity, line.get("quantity"))
        found += _of_amount(f"lines/{number}/lineAmount", amount, line.get("lineAmount"))
    return found
