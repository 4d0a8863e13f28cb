"""Idempotency keys, so that a repeated request sends one email."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from emailgw.models.company import Company
from emailgw.models.outbox import OutboxEmail


class IdempotencyKey(models.Model):
    """A key of a company, and the email that was accepted with it."""

    objects: ClassVar[models.Manager[IdempotencyKey]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    company = models.ForeignKey(Company, models.CASCADE, related_name="+")
    key = models.CharField(max_length=128)
    request_hash = models.CharField(max_length=64)
    outbox = models.ForeignKey(OutboxEmail, models.CASCADE, related_name="+")
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "emailgw_idempotency"
        constraints = [
            models.UniqueConstraint(fields=["company", "key"], name="emailgw_idempotency_key")
        ]

    def __str__(self) -> str:
        return self.key
