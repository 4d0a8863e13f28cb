"""Workers that are shut down while an operation of every type is under way."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.table import OPERATIONS
from tests.integration.conftest import fleet, servers
from tests.integration.fleet import Fleet
from tests.operations.factories import order
from tests.operations.office import SYNCS, Office, opened
from tests.wait import wait_until

__all__ = ["fleet", "servers"]  # fixtures

pytestmark = pytest.mark.slow

DRAIN, ROOM = 10.0, 15.0
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


@pytest.fixture
def office(fleet: Fleet, tmp_path: Path) -> Iterator[Office]:
    with opened(fleet, tmp_path) as found:
        found.settings["CALL_TIMEOUT"] = 60
        found.jobs["DRAIN"] = DRAIN
        item = {"articleCode": "A-001", "quantity": "1", "price": "2.00"}
        for number in range(6):
            found.erp.book.write(
                "submit-order", f"earlier-{number}", {"customerId": "C-0001", "items": [item]}
            )
        yield found


def start(office: Office) -> list[Any]:
    return [office.worker(concurrency=10), office.worker(SYNCS, concurrency=8)]


def test_a_shutdown_loses_no_operation_of_any_type(office: Office) -> None:
    asked = [
        ("service-account" if type in COMMON else type, type, DATA.get(type, {}))
        for type in OPERATIONS
    ]
    agents = {agent for agent, _type, _data in asked}
    for agent in agents:
        office.erp.script(agent, "hang_login")
    office.dispatcher()
    ids = dict(zip(OPERATIONS, office.ask(*asked), strict=True))
    workers = start(office)
    wait_until(lambda: sum(office.erp.attempts.values()) >= len(agents), 90, message="all log in")
    begun = time.monotonic()
    for worker in workers:
        worker.send(signal.SIGTERM)
    for worker in workers:
        worker.ended(DRAIN + ROOM)
    assert time.monotonic() - begun < DRAIN + ROOM
    assert {office.phase(id) for id in ids.values()} == {"queued"}
    start(office)
    for type, id in ids.items():
        assert office.await_phase(id, "completed", "failed", timeout=120) == "completed", type
        assert office.job(id, "failures", "crashes") == (0, 0), type
    assert office.orders == 6  # one more, and one less
    assert office.overlaps() == [] and office.files() == []
