"""Bodies and answers of dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from ninja import Field, Schema

from jobs.api import In


class Letter(Schema):
    """A file whose last attempt has failed."""

    fileId: UUID
    batchId: UUID
    stage: Literal["extracting", "chunking", "embedding"]
    error: str
    message: str
    attempts: int
    failedAt: datetime
    retriedAt: datetime | None
    retriedBy: str | None
    stack: str | None = Field(
        description="where in the code the last attempt failed; null unless you are staff"
    )


class Letters(Schema):
    """Dead letters, newest first."""

    entries: list[Letter]


class SuccessOut(Schema):
    """It was done."""

    success: bool = True


class RetryAllIn(In):
    """Whether a job is to retry what one request does not."""

    all: bool = False


class RetryAllOut(Schema):
    """What became of many retries."""

    retried: int
    failed: int
    remaining: int
