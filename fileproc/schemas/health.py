"""Answers about the pipeline as a whole."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema

from fileproc.schemas.documents import State


class HealthOut(Schema):
    """How the pipeline is set up, and where files are."""

    version: str
    timestamp: datetime
    states: list[str]
    transitions: dict[str, list[str]]
    distribution: dict[str, int]
    search: str
    isolation: str


class StuckOut(Schema):
    """A file that does not move."""

    fileId: UUID
    batchId: UUID
    status: State
    since: datetime


class StuckPage(Schema):
    """Files that do not move."""

    data: list[StuckOut]


class OrphanBlob(Schema):
    """A blob that belongs to no file."""

    key: str
    size: int
    writtenAt: datetime


class OrphansOut(Schema):
    """Blobs without a file, and files without their blob; up to 200 of each."""

    blobs: list[OrphanBlob]
    files: list[UUID]


class QuotaOut(Schema):
    """What the owner uses, and may use."""

    bytesUsed: int
    bytesLimit: int
    openBatches: int
    openBatchesLimit: int


class DashboardOut(Schema):
    """How things go."""

    statusDistribution: dict[str, int]
    activeBatches: int
    dlqDepth: int
    stuckFiles: int
    bytesUsed: int
    quota: QuotaOut
    recentErrors: list[dict[str, Any]]
    metrics: dict[str, Any]
