"""The public functions of the gateway, used by the API, the admin and your code."""

from emailgw.services.acceptance import KEY, Accepted, accept, accept_within
from emailgw.services.batches import (
    BATCH_LIMIT,
    BatchAccepted,
    BatchProgress,
    Item,
    accept_many,
    batch_progress,
)
from emailgw.services.previews import preview
from emailgw.suppressions import listed as list_suppressions
from emailgw.verbs import (
    Revealed,
    add_suppression,
    admit,
    create_company,
    edit_company,
    lift_suppression,
    resend,
    reveal,
    suspend,
)

__all__ = [
    "BATCH_LIMIT",
    "KEY",
    "Accepted",
    "BatchAccepted",
    "BatchProgress",
    "Item",
    "Revealed",
    "accept",
    "accept_many",
    "accept_within",
    "add_suppression",
    "admit",
    "batch_progress",
    "create_company",
    "edit_company",
    "lift_suppression",
    "list_suppressions",
    "preview",
    "resend",
    "reveal",
    "suspend",
]
