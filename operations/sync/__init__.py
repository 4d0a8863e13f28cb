"""The syncs: functions that know nothing of jobs, and stop when they are asked to."""

from operations.sync.exports import ExportInvalid
from operations.sync.runs import (
    SYNCS,
    Deps,
    Result,
    SyncStopped,
    sync_customers,
    sync_ddt,
    sync_invoices,
    sync_order_states,
    sync_orders,
    sync_prices,
    sync_products,
)

__all__ = [
    "SYNCS", "Deps", "ExportInvalid", "Result", "SyncStopped", "sync_customers", "sync_ddt",
    "sync_invoices", "sync_order_states", "sync_orders", "sync_prices", "sync_products",
]  # fmt: skip
