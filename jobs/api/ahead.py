"""Steps before the transaction of an operation: calls to other hosts, made while none is open.

::

    def charge(request, body: OrderIn) -> str:
        return payments.charge(body.card, key=request.headers["Idempotency-Key"])

    @operation(router, "POST", "/orders", "order_create", needs="add_order", before=charge,
               needs_key=True)
    def order(request, body: OrderIn):
        return Order.objects.create(charge_id=prepared(request))

The step is given what the operation is given, when the request has been let in and read. What it
returns, the operation finds by ``prepared``; what it raises is the answer. While it runs, the same
Idempotency-Key is refused with 409, and once the answer is kept, neither runs again. If the
operation fails after it, the next request with that key runs both again: hand the key on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from jobs.api import idempotency
from jobs.api.problem import Problem
from jobs.engine import sql
from jobs.errors import ConfigError, JobsError
from jobs.operate import acts

Step = Callable[..., Any]


class Stepped(Exception):
    """The step has run; the operation comes next."""


def prepared(request: HttpRequest) -> Any:
    """Return what the step before this operation has returned."""
    return request.jobs_prepared  # type: ignore[attr-defined]


def install(operation: Any, before: Step) -> None:
    """Let the operation run its step, and no more, in the first of two passes of a request."""
    function = operation.view_func

    @functools.wraps(function)
    def stepping(request: HttpRequest, **values: Any) -> Any:
        if is_ahead(request):
            # Other hosts are about to be called: it counts, whatever comes of it.
            request.jobs_own_window = None  # type: ignore[attr-defined]
            request.jobs_prepared = before(request, **values)  # type: ignore[attr-defined]
            raise Stepped
        return function(request, **values)

    operation.view_func = stepping


def is_ahead(request: HttpRequest) -> bool:
    """Return whether the step of the request is still to be run."""
    return getattr(request, "jobs_is_ahead", False)


def run(
    request: HttpRequest, step: Callable[[], HttpResponseBase], rest: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    """Return the answer of ``rest``, or of ``step`` if it was refused or failed."""
    if sql.in_transaction():
        raise ConfigError("a step before a transaction cannot run inside one: no ATOMIC_REQUESTS")
    request.jobs_is_ahead = True  # type: ignore[attr-defined]
    response: HttpResponseBase | None = None
    try:
        response = step()
        if isinstance(_error(request), Stepped):
            request.jobs_is_ahead = False  # type: ignore[attr-defined]
            request.jobs_error = None  # type: ignore[attr-defined]
            response = rest()
        elif isinstance(_error(request), JobsError | Problem):
            acts.settle(_error(request))
        return response
    finally:
        if response is None or response.status_code >= 400:
            _give_up(request)


def _error(request: HttpRequest) -> Any:
    return getattr(request, "jobs_error", None)


def _give_up(request: HttpRequest) -> None:
    """The key is free again; where that cannot be written, it is when its claim is over."""
    ticket = getattr(request, "jobs_claim", None)
    if ticket is not None:
        with suppress(DatabaseError):
            ticket.drop()


def take_ticket(
    request: HttpRequest, who: str, secret: tuple[str, ...], **rules: Any
) -> idempotency.Ticket | HttpResponse | None:
    """Return the ticket of a request that has a step: claimed before it, used after it."""
    if not is_ahead(request):
        found: idempotency.Ticket | None = getattr(request, "jobs_claim", None)
        return found
    claimed = idempotency.claim(request, who, secret, **rules)
    if isinstance(claimed, idempotency.Ticket):
        request.jobs_claim = claimed  # type: ignore[attr-defined]
    return claimed
