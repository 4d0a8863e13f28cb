"""Bodies and answers of the upload API."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Field, Schema

from fileproc import config
from fileproc.models import Batch, File
from fileproc.services import batches, confirming, folders, search
from fileproc.states import summary
from jobs.api import In, paging

State = Literal[
    "registered", "uploaded", "queued", "extracting", "chunking", "embedding", "ready", "failed"
]
BatchState = Literal["pending_upload", "active", "completed", "cancelled", "expired"]


class ManifestFolder(In):
    """A folder of a manifest."""

    tempId: str = Field(max_length=100)
    folderName: str = Field(max_length=1000)
    parentTempId: str = Field("", max_length=100)


class ManifestFile(In):
    """A file of a manifest."""

    tempId: str = Field("", max_length=100)
    parentTempId: str = Field("", max_length=100)
    """The folder that it lies in, in place of a ``path``."""
    fileName: str = Field(max_length=1000)
    sizeBytes: int
    mimeType: str = Field("", max_length=255)
    contentHash: str = Field("", max_length=64)
    """SHA-256, in hexadecimal; fixes the content of the upload."""
    path: str = Field("", max_length=2000)
    lastModified: str = Field("", max_length=64)
    metadata: dict[str, Any] = Field(default_factory=dict)


class BatchIn(In):
    """A batch of ``fileCount`` files, or a manifest of them."""

    fileCount: int | None = None
    files: list[ManifestFile] | None = None
    folders: list[ManifestFolder] = Field(default_factory=list)
    chunkSize: int | None = None
    chunkOverlap: int | None = None
    language: str = Field("", max_length=10)
    metadata: dict[str, Any] = Field(default_factory=dict)
    skipDuplicateCheck: bool = False
    owner: str = Field("", max_length=200)


class UploadIn(In):
    """A file that is to be uploaded."""

    fileName: str = Field(max_length=1000)
    fileSize: int
    contentHash: str = Field("", max_length=64)
    path: str = Field("", max_length=2000)
    lastModified: str = Field("", max_length=64)
    metadata: dict[str, Any] = Field(default_factory=dict)


class ConfirmIn(In):
    """What the client says of its upload."""

    size: int | None = None
    md5: str = Field("", max_length=200)


class ConfirmOneIn(ConfirmIn):
    """One of many uploads."""

    fileId: UUID


class ConfirmManyIn(In):
    """Up to 500 uploads."""

    files: list[ConfirmOneIn] = Field(min_length=1)


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


class UploadOut(Schema):
    """Where a file is to be uploaded, by PUT with these headers."""

    fileId: UUID
    tempId: str = ""
    fileName: str
    uploadUrl: str
    headers: dict[str, str]
    expiresAt: datetime


class RefusedOut(Schema):
    """A file of a manifest that was not taken."""

    tempId: str
    fileName: str
    errorCode: str
    message: str


class SummaryOut(Schema):
    """How far a batch is."""

    total: int
    ready: int
    failed: int


class BatchOut(Schema):
    """A batch."""

    batchId: UUID
    status: BatchState
    summary: SummaryOut
    processed_count: int
    revision: int
    counts: dict[str, int]
    language: str
    chunkSize: int | None
    chunkOverlap: int | None
    metadata: dict[str, Any]
    createdAt: datetime
    expiresAt: datetime
    completedAt: datetime | None


class FolderOut(Schema):
    """A folder of a manifest."""

    tempId: str
    folderId: UUID


class ManifestOut(BatchOut):
    """A new batch, with its folders and the addresses of its files."""

    folders: list[FolderOut] = []

    files: list[UploadOut] = []
    refused: list[RefusedOut] = []


class BatchPage(Schema):
    """A page of batches, newest first."""

    data: list[BatchOut]
    page: paging.PageOut


class ConfirmedOut(Schema):
    """A confirmed file, and what is done with its MD5."""

    fileId: UUID
    status: State
    md5: str


class ConfirmedItem(Schema):
    """What became of one of many confirmations."""

    fileId: UUID
    status: State | None = None
    md5: str = ""
    errorCode: str = ""
    message: str = ""


class ConfirmedMany(Schema):
    """What became of many confirmations, in their order."""

    confirmed: int
    refused: int
    files: list[ConfirmedItem]


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


class FileDetail(FileOut):
    """A file with its stages."""

    stages: list[StageOut]


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


class SearchIn(In):
    """A search."""

    q: str = Field(max_length=4000)
    mode: str = "hybrid"
    batchId: UUID | None = None
    folderId: UUID | None = None
    type: str = Field("", max_length=20)
    metadata: dict[str, Any] | None = None
    limit: int = Field(10, ge=1, le=50)
    minScore: float = Field(0.0, ge=0, le=1)
    neighbours: int = Field(0, ge=0, le=search.NEIGHBOURS)
    owner: str = Field("", max_length=200)


class NeighbourOut(Schema):
    """A chunk before or after a hit."""

    number: int
    text: str
    start: int
    end: int


class HitOut(Schema):
    """A piece of a document that answers."""

    fileId: UUID
    fileName: str
    batchId: UUID
    type: str
    score: float
    snippet: str
    pages: list[int] | None
    headings: list[str]
    start: int
    end: int
    number: int
    neighbours: list[NeighbourOut]


class SearchOut(Schema):
    """The hits, best first, and the mode that was used."""

    mode: Literal["hybrid", "vector", "text"]
    hits: list[HitOut]


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


class DashboardOut(Schema):
    """How things go."""

    statusDistribution: dict[str, int]
    activeBatches: int
    dlqDepth: int
    stuckFiles: int
    bytesUsed: int
    recentErrors: list[dict[str, Any]]
    metrics: dict[str, Any]


def announced(one: ManifestFile) -> batches.Announced:
    return batches.Announced(
        one.fileName, one.sizeBytes, one.path, one.lastModified, one.contentHash.lower(),
        one.metadata, one.tempId, one.parentTempId,
    )  # fmt: skip


def options_of(body: BatchIn) -> batches.Options:
    return batches.Options(body.chunkSize, body.chunkOverlap, body.language)


def folders_of(body: BatchIn) -> list[folders.Announced]:
    return [folders.Announced(one.tempId, one.folderName, one.parentTempId) for one in body.folders]


def of_batch(batch: Batch) -> dict[str, Any]:
    return {
        "batchId": batch.pk, "status": batch.status, "summary": summary(batch),
        "processed_count": batch.processed_count, "revision": batch.revision,
        "counts": {name: getattr(batch, name) for name in (
            "registered", "uploaded", "queued", "extracting", "chunking", "embedding", "ready",
            "failed",
        )},
        "language": batch.language, "chunkSize": batch.chunk_tokens,
        "chunkOverlap": batch.chunk_overlap,
        "metadata": batch.metadata, "createdAt": batch.created_at,
        "expiresAt": batch.expires_at, "completedAt": batch.completed_at,
    }  # fmt: skip


def of_upload(made: batches.Registered) -> dict[str, Any]:
    assert made.file is not None and made.upload is not None  # noqa: S101 - it was not refused
    return {
        "fileId": made.file.pk, "tempId": made.announced.temp_id, "fileName": made.file.name,
        "uploadUrl": made.upload.url, "headers": dict(made.upload.headers),
        "expiresAt": made.upload.expires_at,
    }  # fmt: skip


def of_refused(made: batches.Registered) -> dict[str, Any]:
    assert made.refused is not None  # noqa: S101 - the caller has looked
    return {
        "tempId": made.announced.temp_id, "fileName": made.announced.name,
        "errorCode": made.refused.code, "message": made.refused.message,
    }  # fmt: skip


def of_file(file: File) -> dict[str, Any]:
    return {
        "fileId": file.pk, "batchId": file.batch_id, "fileName": file.name, "path": file.path,
        "folderId": file.folder_id, "sizeBytes": file.size, "lastModified": file.modified,
        "status": file.status,
        "type": file.type, "chunkCount": file.chunk_count, "error": file.error,
        "warnings": file.warnings, "metadata": file.metadata, "createdAt": file.created_at,
        "confirmedAt": file.confirmed_at, "endedAt": file.ended_at,
    }  # fmt: skip


def of_confirmed(one: confirming.Confirmed) -> dict[str, Any]:
    if one.refused is not None:
        return {"fileId": one.file_id, "errorCode": one.refused.code,
                "message": one.refused.message}  # fmt: skip
    return {"fileId": one.file_id, "status": one.status, "md5": one.md5}


def of_hit(hit: search.Hit) -> dict[str, Any]:
    return {
        "fileId": hit.file_id, "fileName": hit.file_name, "batchId": hit.batch_id,
        "type": hit.type, "score": hit.score, "snippet": snippet(hit.text),
        "pages": list(hit.pages) if hit.pages else None, "headings": hit.headings,
        "start": hit.start, "end": hit.end, "number": hit.number,
        "neighbours": [asdict(one) for one in hit.neighbours],
    }  # fmt: skip


def snippet(text: str) -> str:
    """Return the beginning of a chunk, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= search.SNIPPET else line[: search.SNIPPET].rstrip() + "…"


MOST_TEXT = 100_000
FILES_LIMIT = config.FILES_LIMIT
