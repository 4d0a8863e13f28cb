"""Endpoints: what every operation of the API does around its own few lines.

::

    section = Section("jobs")

    @section.get("/jobs/{uuid:job_id}", "job_get", needs="view_job", answer=JobOut)
    def job(request, job_id: UUID): ...

Before it: who asks, how often, whether he may, and whether the request can be read. A request that
writes is one transaction, taken back wherever the answer is a problem; what the audit says of a
denied or refused one is written after that. After it: the id of the request on every answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from django.db import DatabaseError, transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Router, Schema
from ninja.decorators import decorate_view
from ninja.errors import AuthenticationError
from ninja.operation import Operation
from pydantic import ConfigDict

from jobs.api import auth, idempotency, problem, requests, throttle
from jobs.api.problem import Problem
from jobs.engine import sql
from jobs.errors import Denied, JobsError
from jobs.operate import acts

SAFE = ("GET", "HEAD", "OPTIONS")
READ_TIMEOUT = "3s"
REPEATS = 4
_REPEATABLE = ("40P01", "40001", "55P03")
Endpoint = Callable[..., Any]


class In(Schema):
    """Base of every body: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid")


class Section:
    """A part of the API that can be left out: a name and its operations."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.router = Router(tags=[name])

    def get(self, path: str, id: str, **how: Any) -> Callable[[Endpoint], Endpoint]:
        return self._add("GET", path, id, **how)

    def post(self, path: str, id: str, **how: Any) -> Callable[[Endpoint], Endpoint]:
        return self._add("POST", path, id, **how)

    def patch(self, path: str, id: str, **how: Any) -> Callable[[Endpoint], Endpoint]:
        return self._add("PATCH", path, id, **how)

    def delete(self, path: str, id: str, **how: Any) -> Callable[[Endpoint], Endpoint]:
        return self._add("DELETE", path, id, **how)

    def _add(
        self, method: str, path: str, name: str, *, needs: str, answer: Any = None,
        verb: str = "", **options: Any,
    ) -> Callable[[Endpoint], Endpoint]:  # fmt: skip
        return operation(
            self.router, method, path, name, needs=needs, answer=answer, verb=verb, **options
        )


def operation(
    router: Router,
    method: str,
    path: str,
    name: str,
    *,
    needs: str,
    answer: Any = None,
    verb: str = "",
    secret: tuple[str, ...] = (),
    is_open: bool = False,
    summary: str = "",
    extra: Mapping[str, Any] | None = None,
    body_limit: int = 0,
    shape: Callable[[HttpRequest, Problem], Problem] | None = None,
    **more: Any,
) -> Callable[[Endpoint], Endpoint]:
    """The function answers this method and path of the router, for whoever has the permission.

    ``needs`` may be empty: whoever is known may ask. ``answer`` is a schema, or schemas by status.
    ``verb`` is what the audit calls it where it is denied. Members of the answer that are
    ``secret`` are told once. Only ``is_open`` asks nobody who he is. Bodies may have ``body_limit``
    bytes, where that is more than the API's own limit. ``shape`` tells problems in the words of an
    app: it answers the problem that is sent.
    """

    def register(function: Endpoint) -> Endpoint:
        rules = _Rules(needs, verb or name, secret, is_open, body_limit, shape)
        told = {
            "x-permission": needs,
            **({"x-verb": verb} if verb else {}),
            **(extra or {}),
            "responses": {"4XX": _PROBLEMS, **(extra or {}).get("responses", {})},
        }
        if method == "POST":
            told["parameters"] = [_IDEMPOTENCY]
        guarded = decorate_view(functools.partial(_guarded, rules))(function)
        if is_open:
            more["auth"] = None
        return router.api_operation(
            [method],
            path,
            operation_id=name,
            response=answer,
            summary=summary or _summary(function),
            description="",
            openapi_extra=told,
            **more,
        )(guarded)

    return register


def told_problem(description: str) -> dict[str, Any]:
    """How the OpenAPI document tells an answer that is a problem."""
    names = ("type", "title", "status", "detail", "instance", "code", "request_id")
    members: dict[str, Any] = {name: {"type": "string"} for name in names}
    members |= {"status": {"type": "integer"}}
    members |= {"errors": {"type": "array", "items": {"type": "object"}}}
    required = [name for name in names if name != "instance"]
    schema = {"type": "object", "required": required, "properties": members}
    return {"description": description, "content": {problem.CONTENT_TYPE: {"schema": schema}}}


_PROBLEMS = told_problem("A problem, as RFC 9457 tells it")
_IDEMPOTENCY: dict[str, Any] = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


def _summary(function: Endpoint) -> str:
    return (function.__doc__ or function.__name__).strip().splitlines()[0].rstrip(".")


class _Rules:
    """What an operation asks of a request."""

    def __init__(
        self, needs: str, verb: str, secret: tuple[str, ...], is_open: bool, body_limit: int,
        shape: Callable[[HttpRequest, Problem], Problem] | None,
    ) -> None:  # fmt: skip
        self.needs, self.verb, self.secret, self.is_open = needs, verb, secret, is_open
        self.body_limit, self.shape = body_limit, shape


class _Kept(Exception):
    """The answer was given before."""

    def __init__(self, response: HttpResponse) -> None:
        self.response = response


class _Api:
    """The API around an operation, wherever that is mounted: its own, but for what goes wrong."""

    def __init__(self, api: Any, operation: Operation, rules: _Rules) -> None:
        self._api, self._operation, self._rules = api, operation, rules

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:
        """Called when the login has succeeded, and before anything is parsed."""
        _prepare(self._operation, self._rules, request)
        made: HttpResponse = self._api.create_temporal_response(request)
        return made

    def on_exception(self, request: HttpRequest, error: Exception) -> HttpResponse:
        if isinstance(error, _Kept):
            return error.response
        request.jobs_error = error  # type: ignore[attr-defined]
        if isinstance(error, AuthenticationError) and error.status_code == 401:
            try:
                throttle.check_refused(request)
                throttle.refuse(request)
            except Problem as found:
                error = found
        return problem.answer(request, error)


def _guarded(rules: _Rules, run: Callable[..., HttpResponseBase]) -> Callable[..., Any]:
    operation: Any = run.__self__  # type: ignore[attr-defined]

    @functools.wraps(run)
    def view(request: HttpRequest, **path: Any) -> HttpResponseBase:
        if not isinstance(operation.api, _Api):
            operation.api = _Api(operation.api, operation, rules)
        request.jobs_path = path  # type: ignore[attr-defined]
        request.jobs_logins = operation.auth_callbacks  # type: ignore[attr-defined]
        request.jobs_shape = rules.shape  # type: ignore[attr-defined]
        try:
            if rules.is_open:  # probes, which have to answer where there is no database
                response = run(request, **path)
            else:
                response = _repeated(lambda: run(request, **path), request)
        except Exception as error:  # of the transaction itself
            response = problem.answer(request, error)
        window = getattr(request, "jobs_window", None)
        if window is not None:
            window.write(response)
        response["X-Request-ID"] = requests.request_id(request)
        if "Cache-Control" not in response:
            response["Cache-Control"] = "no-store"
        response["X-Content-Type-Options"] = "nosniff"
        return response

    return view


def _repeated(run: Callable[[], HttpResponseBase], request: HttpRequest) -> HttpResponseBase:
    """The answer of the first attempt that no other transaction is in the way of."""
    for _ in range(REPEATS):
        response = _once(run, request)
        error = getattr(request, "jobs_error", None)
        if not isinstance(error, DatabaseError) or sql.sqlstate(error) not in _REPEATABLE:
            return response
        if sql.in_transaction():  # somebody else's, which is broken
            return response
        request.jobs_error = request.jobs_ticket = None  # type: ignore[attr-defined]
    busy = Problem(409, "busy", "others are at it; try again", headers={"Retry-After": "1"})
    return problem.response(request, busy)


def _once(run: Callable[[], HttpResponseBase], request: HttpRequest) -> HttpResponseBase:
    """The answer of one transaction, which is taken back where the answer is a problem."""
    with transaction.atomic(using=sql.alias()):
        if request.method in SAFE:
            sql.rows(f"SET LOCAL statement_timeout = '{READ_TIMEOUT}'")
        response = run()
        failed = response.status_code >= 400
        ticket = getattr(request, "jobs_ticket", None)
        if failed:
            transaction.set_rollback(True, using=sql.alias())
        elif ticket is not None and isinstance(response, HttpResponse):
            ticket.keep(response)
        if request.method in SAFE and not failed and sql.connection().in_atomic_block:
            sql.rows("SET LOCAL statement_timeout = DEFAULT")
    error = getattr(request, "jobs_error", None)
    if failed and isinstance(error, JobsError | Problem):
        acts.settle(error)
    return response


def _prepare(operation: Operation, rules: _Rules, request: HttpRequest) -> None:
    if rules.is_open:
        return
    who = auth.who(request)
    reads = request.method in SAFE
    request.jobs_window = throttle.take("read" if reads else "write", who.name)  # type: ignore[attr-defined]
    try:
        auth.need(request, rules.needs)
    except Denied as error:
        if reads:
            raise
        target = next(iter(request.jobs_path.values()), None)  # type: ignore[attr-defined]
        raise acts.deny(error, who, rules.verb, id=target) from None
    try:
        requests.check_text(request, request.jobs_path)  # type: ignore[attr-defined]
        _check_names(operation, request)
        requests.check_body(request, rules.body_limit, is_form=_takes_form(operation))
    except requests.Unusable as error:
        pointer = error.pointer
        raise Problem(error.status, error.code, error.message, pointer=pointer) from None
    _take_ticket(rules, request, who.name)


def _take_ticket(rules: _Rules, request: HttpRequest, who: str) -> None:
    found = idempotency.begin(request, who, rules.secret)
    if isinstance(found, HttpResponse):
        raise _Kept(found)
    request.jobs_ticket = found  # type: ignore[attr-defined]


def _takes_form(operation: Operation) -> bool:
    return any(model.__ninja_param_source__ in ("form", "file") for model in operation.models)


def _check_names(operation: Operation, request: HttpRequest) -> None:
    """The query has no parameter that the operation does not know."""
    known: set[str] = set()
    for model in operation.models:
        if model.__ninja_param_source__ == "query":
            known |= set(model.__ninja_flatten_map__)
    for name in request.GET:
        if name not in known:
            raise requests.Unusable(
                422, "unknown-parameter", f"?{name[:50]}", "there is no such parameter"
            )
