"""Answers about files: their states, texts and chunks."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Field, Schema

from fileproc import config
from fileproc.models import File
from jobs.api import In, paging

State = Literal[
    "registered", "uploaded", "queued", "extracting", "chunking", "embedding", "ready", "failed"
]


class MetadataOne(In):
    """New metadata of a file."""

    fileId: UUID
    metadata: dict[str, Any]


class MetadataIn(In):
    """New metadata of up to 500 files, in place of the old."""

    files: list[MetadataOne] = Field(min_length=1, max_length=config.FILES_LIMIT)
    owner: str = Field("", max_length=200)


class ChangedOut(Schema):
    """How many files were changed."""

    changed: int


class ErrorOut(Schema):
    """Why a file has failed, or was refused."""

    code: str
    message: str
    stage: str = ""
    retryable: bool = False


class FileOut(Schema):
    """A file."""

    fileId: UUID
    batchId: UUID
    fileName: str
    path: str
    folderId: UUID | None
    sizeBytes: int
    lastModified: str
    status: State
    generation: int
    replaces: UUID | None
    type: str
    chunkCount: int
    error: ErrorOut | None
    warnings: list[str]
    metadata: dict[str, Any]
    createdAt: datetime
    confirmedAt: datetime | None
    endedAt: datetime | None


class StageOut(Schema):
    """A run of a stage."""

    stage: str
    jobId: UUID
    attempts: int
    outcome: str
    errorCode: str
    startedAt: datetime | None
    endedAt: datetime | None


class ReprocessOut(Schema):
    """The next generation of a file, until it has taken the place of the old one."""

    status: State
    error: ErrorOut | None


class FileDetail(FileOut):
    """A file with its stages, and its next generation."""

    stages: list[StageOut]
    reprocess: ReprocessOut | None


class FilePage(Schema):
    """A page of files, newest first."""

    data: list[FileOut]
    page: paging.PageOut


class TextOut(Schema):
    """The text of a document, in part."""

    fileId: UUID
    text: str
    offset: int
    total: int


class ChunkOut(Schema):
    """A chunk."""

    number: int
    text: str
    start: int
    end: int
    pages: list[int] | None
    headings: list[str]
    tokens: int


class ChunkPage(Schema):
    """Chunks of a document."""

    data: list[ChunkOut]
    total: int


class LinkOut(Schema):
    """Where a document may be downloaded."""

    url: str


def of_file(file: File) -> dict[str, Any]:
    return {
        "fileId": file.pk, "batchId": file.batch_id, "fileName": file.name, "path": file.path,
        "folderId": file.folder_id, "sizeBytes": file.size, "lastModified": file.modified,
        "status": file.status, "generation": file.generation, "replaces": file.replaces,
        "type": file.type, "chunkCount": file.chunk_count, "error": file.error,
        "warnings": file.warnings, "metadata": file.metadata, "createdAt": file.created_at,
        "confirmedAt": file.confirmed_at, "endedAt": file.ended_at,
    }  # fmt: skip


def of_detail(file: File) -> dict[str, Any]:
    """Describe a file with its stages and its next generation."""
    runs = [
        {"stage": run.stage, "jobId": run.job_id, "attempts": run.attempts,
         "outcome": run.outcome, "errorCode": run.error_code, "startedAt": run.started_at,
         "endedAt": run.ended_at}
        for run in file.all_runs()
    ]  # fmt: skip
    draft = file.draft()
    reprocess = None if draft is None else {"status": draft.status, "error": draft.error}
    return {**of_file(file), "stages": runs, "reprocess": reprocess}


MOST_TEXT = 100_000
