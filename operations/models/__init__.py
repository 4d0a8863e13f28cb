"""The rows that people ask about; they outlive their jobs."""

from operations.models.agent import Agent, ClientKind, Login, SyncState
from operations.models.document import Document
from operations.models.mirror import (
    MIRROR,
    Customer,
    Ddt,
    Invoice,
    Mirror,
    Order,
    OrderArticle,
    OrderState,
    Price,
    Product,
)
from operations.models.operation import Operation, Phase, Step
from operations.models.syncs import Outcome, SyncRun

__all__ = [
    "MIRROR", "Agent", "ClientKind", "Customer", "Ddt", "Document", "Invoice", "Login", "Mirror",
    "Operation", "Order", "OrderArticle", "OrderState", "Outcome", "Phase", "Price", "Product",
    "Step", "SyncRun", "SyncState",
]  # fmt: skip
