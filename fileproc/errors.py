"""What can be wrong with a request, and with a file."""

from __future__ import annotations

from typing import Any

import jobs

STATUS = {
    "INVALID_MANIFEST": 400, "INVALID_REQUEST": 422, "UNSUPPORTED_TYPE": 415, "EMPTY_FILE": 422,
    "FILE_TOO_LARGE": 413, "BATCH_TOO_LARGE": 413, "QUOTA_EXCEEDED": 413,
    "BATCH_NOT_FOUND": 404, "FILE_NOT_FOUND": 404, "DUPLICATE_FILES": 409, "BLOB_NOT_FOUND": 409,
    "SIZE_MISMATCH": 409, "HASH_MISMATCH": 409, "BATCH_FULL": 409, "STATE_CONFLICT": 409,
    "BATCH_EXPIRED": 410, "FORBIDDEN": 403, "STORE_UNAVAILABLE": 503,
}  # fmt: skip
"""The HTTP status of each code of a request."""

MESSAGES = {
    "ENCRYPTED": "the document is protected by a password",
    "UNSUPPORTED_TYPE": "the content is of no type that can be read",
    "BOMB": "the document grows too large when it is unpacked",
    "DAMAGED": "the document is damaged and cannot be read",
    "LIMIT_EXCEEDED": "the document has more pages, text or chunks than the limit allows",
    "NO_TEXT": "the document contains no text",
    "NOT_UPLOADED": "the file did not arrive before its batch expired",
    "CONTENT_CHANGED": "the stored content is not the one that was confirmed",
    "HASH_MISMATCH": "the content does not have the announced checksum",
    "TIMEOUT": "reading the document took too long",
    "CRASHED": "the program that reads the document crashed",
    "EMBEDDER_REFUSED": "the embedding model refused a part of the text",
    "EMBEDDER_UNAVAILABLE": "the embedding model was not available for a day",
    "INDEX_REFUSED": "the search service refused a part of the document",
    "INDEX_UNAVAILABLE": "the search service was not available for a day",
    "STORE_UNAVAILABLE": "the store of files was not available for a day",
    "CANCELLED": "it was cancelled",
    "INTERNAL_ERROR": "something went wrong here",
}
"""What users read about a failed file, by its code. No parser's own words are stored."""
PERMANENT = frozenset(
    {"ENCRYPTED", "UNSUPPORTED_TYPE", "BOMB", "DAMAGED", "LIMIT_EXCEEDED", "NO_TEXT",
     "CONTENT_CHANGED", "HASH_MISMATCH", "EMBEDDER_REFUSED", "INDEX_REFUSED"}
)  # fmt: skip
"""Faults of the file itself: trying again cannot help."""


class Refused(jobs.JobsError):
    """A request was refused, and nothing of it was stored."""

    def __init__(self, code: str, message: str, field: str = "", **extra: Any) -> None:
        self.code, self.message, self.field, self.extra = code, message, field, extra
        super().__init__(f"{field}: {message}" if field else message)


class FileError(Exception):
    """The file cannot be processed; only its code and our own words are shown."""

    def __init__(self, code: str) -> None:
        self.code, self.message = code, MESSAGES[code]
        super().__init__(f"{code}: {self.message}")
