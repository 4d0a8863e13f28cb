"""Endpoints: how an operation is declared, and documented by OpenAPI."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest
from ninja import Router
from ninja.decorators import decorate_view

from jobs import bodies, docstrings
from jobs.api import problem, throttle
from jobs.api.guarding import Rules, guarded
from jobs.api.problem import Problem
from jobs.errors import InvalidOption
from jobs.operate import verbs

Endpoint = Callable[..., Any]
Shape = Callable[[HttpRequest, Problem], Problem]
NEEDED: dict[str, str] = {}
"""The permissions that operations without a verb ask for, each with one of these."""
SHAPES: dict[str, Shape] = {}
"""How operations word their problems, by the names of their addresses."""


def operation(
    router: Router,
    method: str,
    path: str,
    name: str,
    *,
    needs: str | None = None,
    answer: Any = None,
    verb: str = "",
    secret: tuple[str, ...] = (),
    is_open: bool = False,
    summary: str = "",
    extra: Mapping[str, Any] | None = None,
    body_limit: int = 0,
    shape: Shape | None = None,
    before: Callable[..., Any] | None = None,
    needs_key: bool = False,
    key_form: str = "",
    rate: str = "",
    renew: Callable[[HttpRequest, Any], None] | None = None,
    keeps_answer: bool = True,
    **more: Any,
) -> Callable[[Endpoint], Endpoint]:
    """Let the function answer this method and path of the router, for those with the permission.

    ``verb`` names the verb that it does, whose permission it asks for; an operation whose verb is
    declared nowhere is left out. Without a verb ``needs`` is the permission, which may be empty:
    any known caller may ask. ``answer`` is a schema, or schemas by status. Members of the answer
    that are ``secret`` are shown once; ``files.url`` is a member of each file. ``renew`` changes
    the kept answer of a request that is repeated, such as addresses that expire. A POST that
    changes nothing, like a preview, ``keeps_answer`` not: it may be sent again anyway. Only
    ``is_open`` authenticates nobody. Bodies may have ``body_limit`` bytes, where that is more than
    the API's own limit. ``shape`` returns a problem in the words of an app. ``before`` is a step
    that calls other hosts, before there is a transaction (see ``jobs.api.ahead``). ``needs_key``
    refuses a POST without an Idempotency-Key, and ``key_form`` is the regular expression that a key
    has to match, where that is narrower than the API's own rule. ``rate``, like ``10/m``, is how
    often one principal may call the operation, besides what ``JOBS["API_RATES"]`` says of all
    operations together.
    """
    if needs_key and method != "POST":
        raise InvalidOption("needs_key", "goes with POST only")
    if is_open and (before is not None or needs_key or rate):
        raise InvalidOption("is_open", "goes with no step, no key and no rate: nobody is known")
    own = throttle.check_rate(rate) if rate else ""

    known = verbs.find(verb) if verb else None
    if needs is None and known is None:
        return lambda function: function
    permission = (known.permission if known is not None else "") if needs is None else needs

    def register(function: Endpoint) -> Endpoint:
        rules = Rules(
            permission, verb or name, secret, is_open, body_limit, shape, name, before, needs_key,
            own, key_form, renew, keeps_answer,
        )  # fmt: skip
        bodies.allow(body_limit)
        if known is None:  # of verbs there is a check of their own
            NEEDED.setdefault(permission, name)
        told = {
            "x-permission": permission,
            **({"x-verb": verb} if verb else {}),
            **({"x-rate": rate} if rate else {}),
            **(extra or {}),
            "responses": {
                "4XX": _PROBLEMS,
                **_refusals(rules),
                **(extra or {}).get("responses", {}),
            },
        }
        if method == "POST":
            told["parameters"] = [_idempotency(needs_key, key_form)]
        view = decorate_view(functools.partial(guarded, rules))(function)
        if is_open:
            more["auth"] = None
        more.setdefault("url_name", name)
        if shape is not None:
            SHAPES[more["url_name"]] = shape
        return router.api_operation(
            [method],
            path,
            operation_id=name,
            response=answer,
            summary=summary or _summary(function, known),
            description="",
            openapi_extra=told,
            **more,
        )(view)

    return register


def told_problem(description: str) -> dict[str, Any]:
    """How the OpenAPI document describes an answer that is a problem."""
    names = ("type", "title", "status", "detail", "instance", "code", "request_id")
    members: dict[str, Any] = {name: {"type": "string"} for name in names}
    members |= {"status": {"type": "integer"}}
    members |= {"errors": {"type": "array", "items": {"type": "object"}}}
    required = [name for name in names if name != "instance"]
    schema = {"type": "object", "required": required, "properties": members}
    return {"description": description, "content": {problem.CONTENT_TYPE: {"schema": schema}}}


_PROBLEMS = told_problem("A problem, as defined by RFC 9457")


def _idempotency(is_needed: bool, form: str) -> dict[str, Any]:
    """Return how the OpenAPI document describes the header Idempotency-Key."""
    rule = {"pattern": f"^{form}$"} if form else {"maxLength": 255, "pattern": "^[!-~]+$"}
    return {
        "in": "header",
        "name": "Idempotency-Key",
        "required": is_needed,
        "schema": {"type": "string", "minLength": 1, **rule},
    }


def _summary(function: Endpoint, verb: verbs.Verb | None) -> str:
    """Return the summary of the function; of the verb, where the function has no other."""
    found = docstrings.summary(function) or (verb.summary if verb is not None else "")
    return (found or function.__name__).rstrip(".")


def _refusals(rules: Rules) -> dict[str, Any]:
    """Return the answers of an operation that demands a key, or has a rate of its own."""
    found = {}
    if rules.needs_key:
        found["428"] = told_problem("There is no Idempotency-Key")
    if rules.rate:
        wait = {"schema": {"type": "integer"}, "description": "Seconds"}
        many = told_problem(f"More than {rules.rate} requests of one principal")
        found["429"] = {**many, "headers": {"Retry-After": wait}}
    return found
