"""Bodies and answers of batches: announcing, sealing, cancelling."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Field, Schema

from fileproc.models import Batch
from fileproc.services import announcing, batches, folders
from fileproc.states import summary
from jobs.api import In, paging

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
    replaceFileId: UUID | None = None
    """The file that is deleted at the moment in which this one is ready."""


class BatchIn(In):
    """A batch of ``fileCount`` files, or a manifest of them."""

    fileCount: int | None = None
    files: list[ManifestFile] | None = None
    folders: list[ManifestFolder] = Field(default_factory=list)
    chunkSize: int | None = None
    chunkOverlap: int | None = None
    language: str = Field("", max_length=10)
    ocr: bool = True
    """Whether the text of pictures and scanned pages is recognised."""
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
    replaceFileId: UUID | None = None
    """The file that is deleted at the moment in which this one is ready."""


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
    ocr: bool
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


def announced(one: ManifestFile) -> announcing.Announced:
    return announcing.Announced(
        one.fileName, one.sizeBytes, one.path, one.lastModified, one.contentHash.lower(),
        one.metadata, one.tempId, one.parentTempId, replaces=one.replaceFileId,
    )  # fmt: skip


def options_of(body: BatchIn) -> batches.Options:
    return batches.Options(body.chunkSize, body.chunkOverlap, body.language, body.ocr)


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
        "chunkOverlap": batch.chunk_overlap, "ocr": batch.with_ocr,
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
