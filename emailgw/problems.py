"""What goes wrong, in the gateway's words: a problem with the envelope ``error`` in it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from emailgw.clock import now
from emailgw.errors import Refused
from jobs.api import Problem, request_id

_STATUS = {
    "BAD_REQUEST": 400, "FORBIDDEN": 403, "NOT_FOUND": 404, "CONFLICT": 409,
    "PAYLOAD_TOO_LARGE": 413, "VALIDATION_ERROR": 422, "RATE_LIMIT_EXCEEDED": 429,
}  # fmt: skip
_CODES = {
    **{status: code for code, status in _STATUS.items()},
    401: "UNAUTHORIZED", 500: "INTERNAL_ERROR", 503: "SERVICE_UNAVAILABLE",
}  # fmt: skip
_TEXT = {"type": "string"}
TOLD: dict[str, Any] = {
    "description": "A problem, as RFC 9457 tells it, with the gateway's envelope",
    "content": {
        "application/problem+json": {
            "schema": {
                "type": "object",
                # Where the method is not one of the address's, the core answers, without it.
                "required": ["type", "title", "status", "detail", "code", "request_id"],
                "properties": {
                    **dict.fromkeys(["type", "title", "detail", "instance"], _TEXT),
                    **dict.fromkeys(["code", "request_id"], _TEXT),
                    "status": {"type": "integer"},
                    "errors": {"type": "array", "items": {"type": "object"}},
                    "error": {
                        "type": "object",
                        "required": ["code", "message", "requestId", "timestamp", "details"],
                        "properties": {
                            "code": {"type": "string", "enum": sorted(set(_CODES.values()))},
                            **dict.fromkeys(["message", "requestId"], _TEXT),
                            "timestamp": {"type": "string", "format": "date-time"},
                            "details": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "required": ["field", "message"],
                                    "properties": {"field": _TEXT, "message": _TEXT},
                                },
                            },
                        },
                    },
                },
            }
        }
    },
}
"""A problem of the gateway, for OpenAPI."""
REUSED = "idempotency-key-reused"


def problem_of(error: Refused, prefix: str = "/") -> Problem:
    """The refusal as a problem."""
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else None
    code = error.code.lower().replace("_", "-")
    pointer = prefix + error.field.replace(".", "/") if error.field else ""
    made = Problem(_STATUS[error.code], code, error.message, pointer=pointer, headers=headers)
    made.audit = error.audit
    return made


def shaped(request: HttpRequest, found: Problem) -> Problem:
    """The problem with the gateway's envelope; a key with another request is a conflict.

    ``details`` name fields and never hold a value.
    """
    if found.code == REUSED:
        found.status = 409
    details = [
        {"field": str(field.get("pointer", "")).strip("/").replace("/", "."),
         "message": str(field.get("message", ""))}
        for field in found.fields
    ]  # fmt: skip
    envelope: dict[str, Any] = {
        "code": _CODES.get(found.status, "BAD_REQUEST"),
        "message": found.detail,
        "requestId": request_id(request),
        "timestamp": now().isoformat(),
        "details": details,
    }
    found.extra = {**found.extra, "error": envelope}
    return found
