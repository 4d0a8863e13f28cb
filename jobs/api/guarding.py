"""What happens around an operation: before its own few lines, and after them.

Before it: who asks, how often, whether he may, and whether the request can be read. A request that
writes is one transaction, taken back wherever the answer is a problem; what the audit says of a
denied or refused one is written after that. After it: the id of the request on every answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja.errors import AuthenticationError
from ninja.operation import Operation

from jobs.api import ahead, auth, idempotency, problem, requests, throttle
from jobs.api.problem import Problem
from jobs.engine import sql
from jobs.errors import Denied, JobsError
from jobs.operate import acts, verbs
from jobs.payloads import ERRORS_LIMIT

SAFE = ("GET", "HEAD", "OPTIONS")
READ_TIMEOUT = "3s"
REPEATS = 4
_REPEATABLE = ("40P01", "40001", "55P03")


@dataclass(frozen=True, slots=True)
class Rules:
    """What an operation asks of a request."""

    needs: str
    verb: str
    secret: tuple[str, ...]
    is_open: bool
    body_limit: int
    shape: Callable[[HttpRequest, Problem], Problem] | None
    name: str
    before: Callable[..., Any] | None
    needs_key: bool
    rate: str
    key_form: str = ""
    renew: Callable[[HttpRequest, Any], None] | None = None
    keeps_answer: bool = True


class _Kept(Exception):
    """The answer was given before."""

    def __init__(self, response: HttpResponse) -> None:
        self.response = response


class _Api:
    """The API around an operation, wherever that is mounted: its own, but for what goes wrong."""

    def __init__(self, api: Any, operation: Operation, rules: Rules) -> None:
        self._api, self._operation, self._rules = api, operation, rules

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:
        """Called when the login has succeeded, and before anything is parsed."""
        _prepare(self._operation, self._rules, request)
        made: HttpResponse = self._api.create_temporal_response(request)
        return made

    def validation_error_from_error_contexts(self, contexts: list[Any]) -> Exception:
        """Return the error of a request; pydantic lists all that is wrong with it, or nothing."""
        count = sum(one.pydantic_validation_error.error_count() for one in contexts)
        if count > ERRORS_LIMIT:
            return Problem(422, "invalid", f"the request has {count} errors")
        found: Exception = self._api.validation_error_from_error_contexts(contexts)
        return found

    def on_exception(self, request: HttpRequest, error: Exception) -> HttpResponse:
        if isinstance(error, _Kept):
            return error.response
        request.jobs_error = error  # type: ignore[attr-defined]
        if isinstance(error, ahead.Stepped):
            return HttpResponse(status=204)
        if isinstance(error, AuthenticationError) and error.status_code == 401:
            try:
                throttle.check_refused(request)
                throttle.refuse(request)
            except Problem as found:
                error = found
        return problem.answer(request, error)


def guarded(rules: Rules, run: Callable[..., HttpResponseBase]) -> Callable[..., Any]:
    operation: Any = run.__self__  # type: ignore[attr-defined]
    if rules.before is not None:
        ahead.install(operation, rules.before)

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
            elif rules.before is not None:
                attempt = functools.partial(run, request, **path)
                response = ahead.run(request, attempt, lambda: _repeated(attempt, request))
            else:
                response = _repeated(lambda: run(request, **path), request)
        except Exception as error:  # of the transaction itself
            response = problem.answer(request, error)
        if response.status_code >= 400:
            _give_back(request)
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
            sql.rows(sql.QUICK_READS, [READ_TIMEOUT])
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


def _prepare(operation: Operation, rules: Rules, request: HttpRequest) -> None:
    if rules.is_open:
        return
    who = auth.who(request)
    reads = request.method in SAFE
    if not hasattr(request, "jobs_window"):  # it is counted once, however often it is repeated
        _count(request, rules, "read" if reads else "write", who.identity)
    try:
        auth.need(request, rules.needs)
    except Denied as error:
        if reads:
            raise
        target = next(iter(request.jobs_path.values()), None)  # type: ignore[attr-defined]
        known = verbs.find(rules.verb)
        kind = known.target.kind if known is not None else ""
        raise acts.deny(error, who, rules.verb, kind=kind, id=target) from None
    try:
        requests.check_text(request, request.jobs_path)  # type: ignore[attr-defined]
        _check_names(operation, request)
        requests.check_body(request, rules.body_limit, is_form=_takes_form(operation))
    except requests.Unusable as error:
        pointer = error.pointer
        raise Problem(error.status, error.code, error.message, pointer=pointer) from None
    _take_ticket(rules, request, who.identity)


def _count(request: HttpRequest, rules: Rules, kind: str, who: str) -> None:
    """Count the request; remember the window in which the fewest are left."""
    windows = [throttle.take(kind, who)]
    if rules.rate:
        own = throttle.take(rules.name, who, rules.rate)
        request.jobs_own_window = own  # type: ignore[attr-defined]
        windows.append(own)
    found = min((one for one in windows if one), key=lambda one: one.left, default=None)
    request.jobs_window = found  # type: ignore[attr-defined]


def _give_back(request: HttpRequest) -> None:
    """Do not count a request that changed nothing against the rate of its operation."""
    own = getattr(request, "jobs_own_window", None)
    if own is not None:
        found = throttle.give_back(own)
        if request.jobs_window is own:  # type: ignore[attr-defined]
            request.jobs_window = found  # type: ignore[attr-defined]


def _take_ticket(rules: Rules, request: HttpRequest, who: str) -> None:
    if not rules.keeps_answer:
        idempotency.key_of(request, is_needed=rules.needs_key, form=rules.key_form)
        return
    take = idempotency.begin if rules.before is None else ahead.take_ticket
    found = take(request, who, rules.secret, is_needed=rules.needs_key, form=rules.key_form)
    if isinstance(found, HttpResponse):
        if rules.renew is not None:
            found = idempotency.renewed(found, functools.partial(rules.renew, request))
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
