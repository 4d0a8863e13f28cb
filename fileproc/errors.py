"""What can be wrong with a request, and with a file."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

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
    "ENCRYPTED": _("the document is protected by a password"),
    "UNSUPPORTED_TYPE": _("the content is of no type that can be read"),
    "BOMB": _("the document grows too large when it is unpacked"),
    "DAMAGED": _("the document is damaged and cannot be read"),
    "LIMIT_EXCEEDED": _("the document has more pages, text or chunks than the limit allows"),
    "NO_TEXT": _("the document contains no text"),
    "NOT_UPLOADED": _("the file did not arrive before its batch expired"),
    "CONTENT_CHANGED": _("the stored content is not the one that was confirmed"),
    "HASH_MISMATCH": _("the content does not have the announced checksum"),
    "TIMEOUT": _("reading the document took too long"),
    "CRASHED": _("the program that reads the document crashed"),
    "EMBEDDER_REFUSED": _("the embedding model refused a part of the text"),
    "EMBEDDER_UNAVAILABLE": _("the embedding model was not available for a day"),
    "INDEX_REFUSED": _("the search service refused a part of the document"),
    "INDEX_UNAVAILABLE": _("the search service was not available for a day"),
    "STORE_UNAVAILABLE": _("the store of files was not available for a day"),
    "CANCELLED": _("it was cancelled"),
    "INTERNAL_ERROR": _("something went wrong here"),
}
"""What users read about a failed file, in their language. No parser's own words are stored."""
PERMANENT = frozenset(
    {"ENCRYPTED", "UNSUPPORTED_TYPE", "BOMB", "DAMAGED", "LIMIT_EXCEEDED", "NO_TEXT",
     "CONTENT_CHANGED", "HASH_MISMATCH", "EMBEDDER_REFUSED", "INDEX_REFUSED"}
)  # fmt: skip
"""Faults of the file itself: trying again cannot help."""


def message(code: str) -> str:
    """Return what users read about a failed file, in the language of this moment."""
    return str(MESSAGES.get(code, ""))


class Refused(jobs.JobsError):
    """A request was refused, and nothing of it was stored."""

    def __init__(self, code: str, message: str, field: str = "", **extra: Any) -> None:
        self.code, self.message, self.field, self.extra = code, message, field, extra
        super().__init__(f"{field}: {message}" if field else message)


class FileError(Exception):
    """The file cannot be processed; only its code and our own words are shown."""

    def __init__(self, code: str) -> None:
        self.code, self.message = code, message(code)
        super().__init__(f"{code}: {self.message}")
