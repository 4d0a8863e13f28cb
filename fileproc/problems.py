"""Problems of the upload API: RFC 9457 with one member more, ``errorCode``."""

from __future__ import annotations

from django.http import HttpRequest

import jobs
from fileproc.errors import STATUS, Refused
from jobs.api import Problem

_CODES = {
    400: "INVALID_REQUEST", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED", 409: "STATE_CONFLICT", 413: "TOO_LARGE", 422: "INVALID_REQUEST",
    429: "RATE_LIMITED", 503: "UNAVAILABLE",
}  # fmt: skip


def problem_of(error: jobs.JobsError) -> Exception:
    """Return the problem that describes a refusal; any other error unchanged."""
    if not isinstance(error, Refused):
        return error
    code = error.code.lower().replace("_", "-")
    pointer = "/" + error.field.replace(".", "/") if error.field else ""
    return Problem(
        STATUS[error.code], code, error.message, pointer=pointer, errorCode=error.code,
        **error.extra,
    )  # fmt: skip


def with_code(request: HttpRequest, found: Problem) -> Problem:
    """Add ``errorCode`` to the problems of the platform."""
    found.extra.setdefault("errorCode", _CODES.get(found.status, "INTERNAL_ERROR"))
    return found
