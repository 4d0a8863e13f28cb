"""Workers that are shut down while an operation of every type is under way."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from operations.table import OPERATIONS
from tests.operations.factories import order
from tests.operations.hanging import AT_ONCE, await_hanging, hang
from tests.operations.office import PATIENCE, SYNCS, Office
from tests.wait import wait_until

pytestmark = pytest.mark.slow

DRAIN = 5.0
CUSTOMER = {"name": "Neri", "vatNumber": "IT00000000012"}
DATA: dict[str, dict[str, Any]] = {
    "submit-order": order(),
    "create-customer": CUSTOMER,
    "update-customer": {**CUSTOMER, "customerProfile": "C-0002"},
    "send-to-verona": {"orderId": "4711"},
    "edit-order": {
        "orderId": "4712",
        "updatedItems": [{"articleCode": "A-003", "quantity": 2, "unitPrice": 5, "lineAmount": 10}],
    },
    "delete-order": {"orderId": "4713"},
    "download-ddt-pdf": {"orderId": "4714", "ddtNumber": "D-4714"},
    "download-invoice-pdf": {"orderId": "4715", "invoiceNumber": "I-4715"},
    "sync-order-articles": {"orderId": "4716"},
}
COMMON = ("sync-products", "sync-prices")
"""These have one agent, so one of them waits for the other."""


@pytest.fixture(autouse=True)
def earlier(office: Office) -> None:
    """The ERP has the orders that operations of some types are about."""
    item = {"articleCode": "A-001", "quantity": "1", "price": "2.00"}
    for number in range(6):
        office.erp.book.write(
            "submit-order", f"earlier-{number}", {"customerId": "C-0001", "items": [item]}
        )


def start(office: Office) -> list[Any]:
    return [office.worker(concurrency=14), office.worker(SYNCS, concurrency=8)]


def test_a_shutdown_loses_nothing_and_ends_in_time(office: Office) -> None:
    """One operation of every type hangs at its login, and others wherever else they may."""
    office.jobs["DRAIN"] = DRAIN
    office.erp.slow = 2
    asked = {
        type: ("service-account" if type in COMMON else type, type, DATA.get(type, {}))
        for type in OPERATIONS
    }
    agents = {agent for agent, _type, _data in asked.values()}
    for agent in agents:
        office.erp.script(agent, "hang_login")
    office.erp.script("slow", "slow_write")
    elsewhere = hang(office)
    *made, slow = office.ask(*asked.values(), ("slow", "submit-order", order("P-9")))
    ids = {**elsewhere, **dict(zip(asked, made, strict=True))}
    office.dispatcher()
    workers = start(office)
    await_hanging(office)
    office.await_call("operations", 3)
    wait_until(
        lambda: all(office.erp.attempts[agent] for agent in agents), PATIENCE, message="all log in"
    )
    begun = time.monotonic()
    for worker in workers:
        worker.send(signal.SIGTERM)
    for worker in workers:
        worker.ended(DRAIN + AT_ONCE)
    assert time.monotonic() - begun < DRAIN + AT_ONCE
    # A write that is answered in time is finished, others continue elsewhere.
    assert office.phase(slow) == "completed"
    for name in (*agents - {"service-account"}, "login", "read", "sync"):
        assert office.steps(ids[name])[-1] == ("queued", "released"), name
    start(office)
    for name, id in ids.items():
        assert office.await_phase(id, "completed", "failed") == "completed", name
        assert office.job(id, "failures") == (0,), name
    assert office.orders == 6 + 1 + 4 + 1 - 1  # earlier, read, hanging, submitted, deleted
    assert office.overlaps() == [] and office.files() == []
