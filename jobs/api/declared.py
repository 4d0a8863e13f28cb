"""Operations made of the declarations of verbs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema, Status
from pydantic import Field

from jobs.api import conditional
from jobs.api.auth import default
from jobs.api.auth import who as who_asks
from jobs.api.endpoints import operation
from jobs.api.inputs import body_of, member, values_of
from jobs.errors import JobsError
from jobs.operate import verbs
from jobs.operate.verbs import Verb
from jobs.principals import Principal

_CONVERTERS = {UUID: "uuid:", int: "int:"}


class DoneOut(Schema):
    """The verb was done, and what it returned."""

    done: bool = True
    result: Any = Field(None)


Translate = Callable[[JobsError], Exception]
"""Returns what is raised instead, as an app words its problems."""


def verb_router(app: str, *, without: Collection[str] = (), auth: Any = None, **how: Any) -> Router:
    """Return a router with an operation for each verb that the app declares.

    Those ``without`` are left out: the app has operations of its own for them. ``auth`` is the
    login of the app in place of API keys and sessions; ``how`` are options of ``operation``, and
    ``translate``, which returns the problem that is answered for an error.
    """
    router = Router(tags=[app], auth=auth or default())
    for verb in verbs.of_app(app):
        if verb.name not in without:
            plural = verb.target.plural or f"{verb.target.kind}s"
            add(router, verb, f"/{plural}", **how)
    return router


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is of the operation of a verb, besides what the verb declares."""

    answer: Any = DoneOut
    """The schema of its answer, or schemas by their status."""
    show: Callable[[Principal, Any, Any], Any] | None = None
    """Makes the answer of who asks, the id of the target and what the verb returned; a ``Status``
    where there is more than one."""
    location: str = ""
    """Where to find what was made or begun, like ``/jobs/{id}`` with a member of the answer."""
    locked: Callable[[Principal, Any], Model] | None = None
    """Finds the row that must not have changed since the ETag of ``If-Match``."""
    target: str = ""
    """The id of the target, where the path names only a part of it: ``queue:{}``."""
    required: tuple[str, ...] = ()
    """Parameters that have to be given here, though the verb can do without them."""
    translate: Translate | None = None
    is_camel: bool = False
    """Whether members of the body are spelled like ``perMinute``."""


_SHAPE = frozenset(one.name for one in fields(Shape))


def add(router: Router, verb: Verb, base: str, *, path: str = "", id: str = "", **how: Any) -> None:
    """Add the operation of a verb to the router, by default below ``base``.

    ``how`` are members of its ``Shape`` and options of ``operation``.
    """
    shape = Shape(**{name: how.pop(name) for name in _SHAPE & set(how)})
    name = _name(path, verb)
    if not path:
        key = "" if verb.is_new else f"/{{{_CONVERTERS.get(verb.target.id, '')}{name}}}"
        path = f"{base}{key}/{verb.slug}"
    id = id or verb.name.replace(".", "_")
    operation(
        router,
        how.pop("method", "POST" if shape.locked is None else "PATCH"),
        path,
        id,
        verb=verb.name,
        answer=shape.answer,
        **how,
    )(_endpoint(verb, name, path.count("/"), id, shape))


def _statuses(shape: Shape) -> list[int]:
    return list(shape.answer) if isinstance(shape.answer, dict) else [200]


def _name(path: str, verb: Verb) -> str:
    """Return what the path calls the id of the target; nothing where it does not name it."""
    if path or verb.is_new:
        return path.partition("{")[2].partition("}")[0].rpartition(":")[2]
    return f"{verb.target.kind}_id"


def _endpoint(verb: Verb, name: str, depth: int, id: str, shape: Shape) -> Callable[..., Any]:
    """Return a function for the operation, with the signature that Ninja reads."""
    own = id if shape.required or shape.target else ""
    body = body_of(verb, not name, shape.required, own, shape.is_camel)
    parts = [part for one in verb.every_parameter for part in one.parts]
    members = {one.name: member(one, shape.is_camel) for one in parts}
    status = _statuses(shape)[0]
    schema = shape.answer.get(status) if isinstance(shape.answer, dict) else shape.answer

    def run(request: HttpRequest, response: HttpResponse, **asked: Any) -> Any:
        who = who_asks(request)
        target = shape.target.format(asked[name]) if shape.target else asked.get(name)
        try:
            values = values_of(verb, asked["body"], shape.is_camel)
            if not name and not verb.is_new:
                target = values.pop(verb.every_parameter[0].name)
            if shape.locked is not None:
                conditional.check(request, shape.locked(who, target))
            result = call(verb, target, values, who)
        except JobsError as error:
            for attribute in ("option", "field"):  # named as the body names it
                if (option := getattr(error, attribute, None)) in members:
                    setattr(error, attribute, members[option])
            if shape.translate is None:
                raise
            raise shape.translate(error) from None
        if shape.show is not None:
            told = shape.show(who, target, result)
        else:
            told = None if schema is None else _plain(result)
        answer = told if isinstance(told, Status) else Status(status, told)
        if shape.location and answer.status_code in _MADE:
            root = request.path.rsplit("/", depth)[0]
            response["Location"] = root + _filled(shape.location, answer.value)
        return answer

    keyword = inspect.Parameter.KEYWORD_ONLY
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter("request", place, annotation=HttpRequest),
        inspect.Parameter("response", place, annotation=HttpResponse),
    ]
    if name:
        kind = str if shape.target else verb.target.id
        parameters.append(inspect.Parameter(name, keyword, annotation=kind))
    parameters.append(inspect.Parameter("body", keyword, annotation=body))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__name__ = verb.name.replace(".", "_")
    return run


_MADE = (201, 202)


def _filled(location: str, shown: Any) -> str:
    """Return the location with members of the answer in their places."""
    path, _, name = location.rstrip("}").partition("{")
    value = shown[name] if isinstance(shown, dict) else getattr(shown, name)
    return path + quote(str(value), safe="")


def call(verb: Verb, target: Any, values: dict[str, Any], by: Any) -> Any:
    """Do the verb to the target with these values, by name."""
    places = [] if verb.is_new else [target]
    places += [values.pop(one.name) for one in verb.parameters if one.by_place]
    return verb.function(*places, by=by, **values)


def _plain(result: Any) -> dict[str, Any]:
    """Return the default answer: what the verb returned, where that is plain data."""
    is_plain = isinstance(result, str | int | float | bool | UUID | dict | list | None)
    return {"done": True, "result": result if is_plain else None}
