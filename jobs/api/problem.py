"""Problems: what went wrong, as RFC 9457 describes it, with a stable code and pointers to fields.

::

    raise problem.Problem(422, "cpf-invalid", "is wrong", pointer="/cpf", error="CPF_INVALID")

Inside the operations of this package every error becomes a problem wherever they are mounted;
``install_problem_handlers(api)`` does the same for a whole ``NinjaAPI``.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import ninja.errors
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, DataError, InterfaceError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Schema

from jobs import errors
from jobs.api import requests
from jobs.engine import sql

if TYPE_CHECKING:
    from ninja import NinjaAPI

log = logging.getLogger("jobs.api")

CONTENT_TYPE = "application/problem+json"
TYPE = "https://django-jobdesk.readthedocs.io/problems#"


class FieldProblem(Schema):
    """What is wrong with one field."""

    pointer: str
    message: str
    code: str


class ProblemOut(Schema):
    """A problem, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str
    errors: list[FieldProblem] = []


class Problem(Exception):
    """An answer that says what went wrong; ``extra`` are members of the project's own."""

    audit: tuple[Any, ...] = ()
    """What the audit says about it, as of the error that it reports."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str = "",
        *,
        pointer: str = "",
        fields: Iterable[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        self.status, self.code, self.extra = status, code, extra
        self.detail = detail or HTTPStatus(status).phrase
        self.fields = [dict(field) for field in fields]
        if pointer:
            self.fields.append({"pointer": pointer, "message": self.detail, "code": code})
        self.headers = dict(headers or {})
        super().__init__(self.detail)


def response(request: HttpRequest, found: Problem) -> HttpResponse:
    """The problem as an answer."""
    body: dict[str, Any] = {
        **found.extra,
        "type": TYPE + found.code,
        "title": HTTPStatus(found.status).phrase,
        "status": found.status,
        "detail": found.detail,
        "instance": request.path[:500],
        "code": found.code,
        "request_id": requests.request_id(request),
    }
    if found.fields:
        body["errors"] = found.fields
    text = json.dumps(body, default=str)
    made = HttpResponse(text, status=found.status, content_type=CONTENT_TYPE)
    for name, value in found.headers.items():
        made[name] = value
    if found.status == 401:
        made["WWW-Authenticate"] = 'Bearer realm="jobs"'
    made["Cache-Control"] = "no-store"
    return made


def of(error: BaseException) -> Problem | None:
    """The problem that the error is; None where it is a fault of ours."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.JobsError):
        return _of_ours(error)
    if isinstance(error, ninja.errors.ValidationError):
        return Problem(422, "invalid", "the request is not valid", fields=_fields(error.errors))
    if isinstance(error, ninja.errors.Throttled):
        wait = {} if error.wait is None else {"Retry-After": str(math.ceil(error.wait))}
        return Problem(429, "throttled", "too many requests", headers=wait)
    if isinstance(error, ninja.errors.HttpError):
        return _of_status(error.status_code, str(error))
    if isinstance(error, Http404):
        return Problem(404, "not-found", "there is no such thing")
    if isinstance(error, PermissionDenied):
        return Problem(403, "denied", "this is not allowed")
    if isinstance(error, RequestDataTooBig):
        return Problem(413, "too-large", "the body is too large")
    if isinstance(error, SuspiciousOperation):
        return Problem(400, "bad-request", "the request is not valid")
    if isinstance(error, DataError):
        return Problem(422, "out-of-range", "a value is out of the range that can be stored")
    if isinstance(error, DatabaseError | InterfaceError) and sql.is_disconnected(error):
        wait = {"Retry-After": "5"}
        return Problem(503, "unavailable", "the database does not answer", headers=wait)
    if isinstance(error, DatabaseError) and sql.sqlstate(error) == "57014":
        return Problem(400, "too-expensive", "this would read too much; narrow it down")
    return None


_CODES = {
    400: "bad-request",
    401: "unauthenticated",
    403: "denied",
    404: "not-found",
    405: "method-not-allowed",
    409: "conflict",
    413: "too-large",
    422: "invalid",
    429: "throttled",
}


def _of_status(status: int, detail: str) -> Problem:
    if status == 401:
        detail = "show an API key or log in"
    if status == 400 and detail.startswith("Cannot parse"):
        detail = "the body cannot be parsed"
    return Problem(status, _CODES.get(status, "error"), detail[:500])


def _of_ours(error: errors.JobsError) -> Problem | None:
    told = str(error)[:1000]
    if isinstance(error, errors.Denied):
        return Problem(403, "denied", told, permission=error.permission)
    if isinstance(error, errors.UnknownTarget):
        return Problem(404, f"unknown-{error.kind}".replace(" ", "-").replace("_", "-"), told)
    if isinstance(error, errors.NotAllowed):
        code = "key-taken" if isinstance(error, errors.KeyTaken) else "invalid-state"
        return Problem(
            409, code, told, current_state=error.state, allowed_actions=_actions(error.state)
        )
    if isinstance(error, errors.IllegalMove | errors.StaleState):
        return Problem(409, "invalid-state", told, current_state=error.current)
    if isinstance(error, errors.InvalidPayload):
        return Problem(422, "invalid-payload", told, pointer=_pointer("payload", error.field))
    if isinstance(error, errors.UnknownKind):
        return Problem(404, "unknown-kind", told, pointer="/kind")
    if isinstance(error, errors.DuplicateJob):
        return Problem(409, "duplicate-job", told, pointer="/id")
    if isinstance(error, errors.KeyConflict):
        return Problem(409, "key-conflict", told, job_id=str(error.job_id))
    if isinstance(error, errors.FeedGone):
        return Problem(410, "feed-gone", told, floor=error.floor, head=error.head)
    if isinstance(error, errors.StaleClaim):
        return Problem(409, "stale-claim", told)
    if isinstance(error, errors.InvalidOption | errors.EventError):
        return Problem(422, "invalid-option", told, pointer=_pointer(error.option))
    if isinstance(error, errors.EffectError | errors.BreakerError | errors.MeterError):
        return Problem(409, "invalid-state", told)
    if isinstance(error, errors.Changed):
        return Problem(412, "changed-meanwhile", told)
    if isinstance(error, errors.TooSlow):
        return Problem(400, "too-expensive", told)
    if isinstance(error, errors.QueryError):
        return Problem(400, "invalid-query", told, position=error.position, pointer="?query")
    if isinstance(error, errors.ConfigError | errors.SealError | errors.HandlerError):
        return None
    return Problem(422, "refused", told)


def _actions(state: str) -> list[str]:
    """What can be done with a job in this state."""
    if state in ("blocked", "pending", "queued"):
        return ["cancel", "edit", "run-now"] if state == "pending" else ["cancel", "edit"]
    if state == "running":
        return ["cancel"]
    if state == "succeeded":
        return ["replay"]
    return ["retry", "replay"] if state in ("failed", "cancelled", "expired") else []


def _fields(found: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Pydantic's errors without what was sent: that may be somebody's."""
    return [
        {
            "pointer": _location(error.get("loc", ())),
            "message": str(error.get("msg", "")).removeprefix("Value error, ")[:500],
            "code": str(error.get("type", "invalid")),
        }
        for error in found
    ][:100]


def _location(loc: Iterable[Any]) -> str:
    source, *path = [str(part) for part in loc] or [""]
    if source == "body":
        return _pointer(*path[1:]) if path[1:] else "/"
    return f"?{path[-1]}" if source == "query" and path else _pointer(*path)


def _pointer(*parts: str) -> str:
    """A JSON pointer; dots inside of a part separate as well."""
    found = [one for part in parts for one in part.split(".")]
    return "".join("/" + one.replace("~", "~0").replace("/", "~1") for one in found)[:500]


def answer(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    """The error as a problem; a fault of ours is logged, and nothing of it told."""
    if isinstance(error, type):
        error = error()
    found = of(error)
    if found is None:
        log.error(
            "request %s failed", requests.request_id(request),
            exc_info=(type(error), error, error.__traceback__),
        )  # fmt: skip
        found = Problem(500, "internal", "something went wrong here; it has been logged")
    shape = getattr(request, "jobs_shape", None)
    return response(request, shape(request, found) if shape else found)


def install_problem_handlers(api: NinjaAPI) -> None:
    """Every error of the whole API is a problem, also those of other routers."""
    from ninja.errors import HttpError, ValidationError

    for kind in (Exception, Http404, HttpError, ValidationError):
        api.add_exception_handler(kind, answer)
