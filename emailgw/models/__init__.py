"""The tables of the gateway."""

from emailgw.models.company import Company, Usage
from emailgw.models.event import EmailEvent, EmailLog
from emailgw.models.idempotency import IdempotencyKey
from emailgw.models.outbox import EmailBatch, OutboxEmail, Status, StoredHtml
from emailgw.models.recipient import Recipient
from emailgw.models.suppression import Suppression

__all__ = [
    "Company",
    "EmailBatch",
    "EmailEvent",
    "EmailLog",
    "IdempotencyKey",
    "OutboxEmail",
    "Recipient",
    "Status",
    "StoredHtml",
    "Suppression",
    "Usage",
]
