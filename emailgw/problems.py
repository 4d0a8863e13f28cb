"""Error responses of the gateway: RFC 9457 problems with a member ``error``."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

import jobs
from emailgw.clock import now
from emailgw.errors import Refused
from jobs.api import Problem, request_id

_STATUS = {
    "BAD_REQUEST": 400, "FORBIDDEN": 403, "NOT_FOUND": 404, "CONFLICT": 409,
    "PAYLOAD_TOO_LARGE": 413, "VALIDATION_ERROR": 422, "RATE_LIMIT_EXCEEDED": 429,
    "SERVICE_UNAVAILABLE": 503,
}  # fmt: skip
_CODES = {
    **{status: code for code, status in _STATUS.items()},
    401: "UNAUTHORIZED", 405: "METHOD_NOT_ALLOWED", 500: "INTERNAL_ERROR",
}  # fmt: skip
_TEXT = {"type": "string"}
PROBLEM_RESPONSE: dict[str, Any] = {
    "description": "An RFC 9457 problem with the member `error`",
    "content": {
        "application/problem+json": {
            "schema": {
                "type": "object",
                "required": ["type", "title", "status", "detail", "code", "request_id", "error"],
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
"""The OpenAPI response of every operation."""
REUSED = "idempotency-key-reused"


def problem_of(error: jobs.JobsError) -> Exception:
    """Convert a Refused to a problem; return any other error unchanged."""
    if not isinstance(error, Refused):
        return error
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else None
    code = error.code.lower().replace("_", "-")
    named = [(error.field, error.message), *error.others] if error.field else error.others
    fields = [
        {"pointer": "/" + field.replace(".", "/"), "message": message, "code": code}
        for field, message in named
    ]
    made = Problem(_STATUS[error.code], code, error.message, fields=fields, headers=headers)
    made.audit = error.audit
    return made


def with_envelope(request: HttpRequest, found: Problem) -> Problem:
    """Add the member ``error``; a reused idempotency key is a conflict (409).

    ``details`` names fields and never contains a value.
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
