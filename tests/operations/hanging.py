"""Operations of each family whose call to the ERP hangs, for tests that stop them."""

from __future__ import annotations

from tests.operations.factories import order
from tests.operations.office import PATIENCE, Office
from tests.wait import wait_until

AT_ONCE = 15
"""Seconds within which a call that would hang for 60 has been ended, on any machine."""
HANGS = {
    "login": ("hang_login", "submit-order", order("P-1")),
    "write": ("hang_write", "submit-order", order("P-2")),
    "back": ("hang_read", "submit-order", order("P-3")),
    "read": ("hang_read", "sync-order-articles", {"orderId": "1"}),
    "sync": ("hang_export", "sync-customers", {}),
}
"""By agent; a write hangs at its login, at the call itself, and when it is read back."""


def hang(office: Office) -> dict[str, str]:
    """The ids of the operations, by agent."""
    for agent, (fault, _type, _data) in HANGS.items():
        office.erp.script(agent, fault)
    office.erp.book.data["orders"]["1"] = {
        "lines": [], "total": "0.00", "totalWithVat": "0.00", "customerId": "C-0001",
        "state": "open", "version": 1,
    }  # fmt: skip
    asked = [(agent, type, data) for agent, (_fault, type, data) in HANGS.items()]
    return dict(zip(HANGS, office.ask(*asked), strict=True))


def await_hanging(office: Office) -> None:
    """All of them hang."""
    office.await_call("operations", 2)
    office.await_call("orders", 2)
    office.await_call("exports")
    wait_until(lambda: office.erp.attempts["login"] >= 1, PATIENCE, message="all log in")
