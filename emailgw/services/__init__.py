"""What people and programs do with emails; API, admin and code call this and nothing else."""

from emailgw.services.acceptance import Accepted, accept, accept_within
from emailgw.services.batches import BATCH_LIMIT, BatchAccepted, Item, accept_many, batch_status
from emailgw.services.companies import suspend
from emailgw.services.resending import resend
from emailgw.services.revealing import Revealed, reveal
from emailgw.services.showing import preview
from emailgw.services.suppression import add_suppression, lift_suppression, list_suppressions

__all__ = [
    "BATCH_LIMIT",
    "Accepted",
    "BatchAccepted",
    "Item",
    "Revealed",
    "accept",
    "accept_many",
    "accept_within",
    "add_suppression",
    "batch_status",
    "lift_suppression",
    "list_suppressions",
    "preview",
    "resend",
    "reveal",
    "suspend",
]
