"""The table of operations: kinds, schemas and documentation follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Family(StrEnum):
    """What an operation does, which decides how it is queued, stopped and deduplicated."""

    WRITE = "write"
    READ = "read"
    SYNC = "sync"


@dataclass(frozen=True, slots=True)
class Operation:
    """A type of operation."""

    type: str
    rank: int
    """1 is the most urgent."""
    family: Family
    timeout: float
    attempts: int = 1
    entity: str = ""
    """The field of its data that names what it changes or reads; writes to it keep their order."""
    resync: str = ""
    """The sync that follows a write."""
    active: int = 0
    """Minutes after which the mirror of an active agent is stale."""
    idle: int = 0
    """The same for an idle agent; 0 leaves it alone."""
    is_shared: bool = False
    """Whether it runs once for all agents, as the service account."""

    @property
    def kind(self) -> str:
        """Return the kind of its jobs."""
        return f"erp.{self.type}"

    @property
    def queue(self) -> str:
        """Return the queue of its jobs."""
        return f"erp-{self.family}"

    @property
    def priority(self) -> int:
        """Return the priority of its jobs: 100 for the most urgent type, 6 less for each next."""
        return 100 - 6 * (self.rank - 1)


def _write(rank: int, type: str, entity: str, resync: str, timeout: float = 120) -> Operation:
    return Operation(type, rank, Family.WRITE, timeout, 4, entity, resync)


def _sync(rank: int, type: str, active: int, idle: int, is_shared: bool = False) -> Operation:
    return Operation(
        type, rank, Family.SYNC, 300, 3, active=active, idle=idle, is_shared=is_shared
    )  # fmt: skip


_ALL = (
    _write(1, "submit-order", "pendingOrderId", "sync-orders"),
    _write(2, "create-customer", "", "sync-customers"),
    _write(3, "update-customer", "customerProfile", "sync-customers"),
    _write(4, "send-to-verona", "orderId", "sync-orders"),
    _write(5, "edit-order", "orderId", "sync-orders"),
    _write(6, "delete-order", "orderId", "sync-orders", timeout=60),
    Operation("download-ddt-pdf", 7, Family.READ, 60, 2, "orderId"),
    Operation("download-invoice-pdf", 8, Family.READ, 60, 2, "orderId"),
    Operation("sync-order-articles", 9, Family.READ, 180, 1, "orderId"),
    _sync(10, "sync-order-states", 5, 15),
    _sync(11, "sync-customers", 30, 120),
    _sync(12, "sync-orders", 20, 60),
    _sync(13, "sync-ddt", 60, 0),
    _sync(14, "sync-invoices", 60, 0),
    _sync(15, "sync-products", 240, 0, is_shared=True),
    _sync(16, "sync-prices", 240, 0, is_shared=True),
)
OPERATIONS: Final = {one.type: one for one in _ALL}
SYNCS: Final = tuple(one for one in _ALL if one.family is Family.SYNC)
SERVICE_ACCOUNT: Final = "service-account"
"""The agent of the syncs that are shared."""
