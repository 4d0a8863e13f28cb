"""Payloads of the jobs: ids, and nothing of the files."""

from __future__ import annotations

from uuid import UUID

import jobs


class Extract(jobs.Payload, kind="fileproc.extract"):
    file_id: UUID


class Chunking(jobs.Payload, kind="fileproc.chunk"):
    file_id: UUID


class Embed(jobs.Payload, kind="fileproc.embed"):
    file_id: UUID


class BatchProgress(jobs.Payload, kind="fileproc.progress"):
    batch_id: UUID


class BatchCompleted(jobs.Payload, kind="fileproc.completed"):
    batch_id: UUID
    revision: int


class CancelRest(jobs.Payload, kind="fileproc.cancel"):
    """Cancel the jobs of files that have been cancelled or deleted."""

    file_ids: list[UUID]


class Erase(jobs.Payload, kind="fileproc.erase"):
    file_id: UUID


class Unindex(jobs.Payload, kind="fileproc.unindex"):
    """Delete the documents of a content from the index of another host."""

    model: str
    key: str
    """How their keys begin."""
    count: int


class RetryAll(jobs.Payload, kind="fileproc.retry_all"):
    owner: str
    by: str


class Tend(jobs.Payload, kind="fileproc.tend"):
    """Expire batches, restart what is stuck, remove blobs of nobody."""


STAGES: dict[str, type[jobs.Payload]] = {"extract": Extract, "chunk": Chunking, "embed": Embed}
"""The payload of each stage."""
KINDS = tuple(str(one.kind) for one in STAGES.values())
