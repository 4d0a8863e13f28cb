"""Bodies of requests: their base, and those that are made of the parameters of a verb."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any

from ninja import Schema
from pydantic import ConfigDict, Field, create_model

from jobs.errors import InvalidOption
from jobs.operate.parameters import LONGEST, Parameter
from jobs.operate.verbs import Verb
from jobs.operate.words import REASON_LIMIT

LONGEST_MS = LONGEST // timedelta(milliseconds=1)


class In(Schema):
    """Base of every body: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid")


@functools.cache
def body_of(
    verb: Verb, with_target: bool = False, required: tuple[str, ...] = (), name: str = ""
) -> type[In]:
    """Return the schema of what people give to the verb, besides its target or with it.

    What is ``required`` has to be given here, though the verb can do without it; the schema then
    has a ``name`` of its own.
    """
    fields: dict[str, Any] = {}
    if verb.reason is not None:
        fields["reason"] = _reason(verb.reason)
    for one in verb.every_parameter if with_target else verb.parameters:
        if one.is_rest:
            fields["options"] = (dict[str, Any], Field(default_factory=dict))
        elif dataclasses.is_dataclass(one.type):
            fields |= {part: (kind, value) for part, kind, value in _parts(one.type)}
        elif one.name != "reason":
            fields[_member(one)] = _field(one, one.name in required)
    name = name or f"{verb.noun}_{verb.action}"
    title = "".join(part.capitalize() for part in name.split("_"))
    module = verb.function.__module__
    made: type[In] = create_model(
        f"{title}In", __base__=In, __doc__=verb.summary, __module__=module, **fields
    )
    return made


def values_of(verb: Verb, body: In) -> dict[str, Any]:
    """Return what the body gives to the parameters of the verb, by name."""
    values: dict[str, Any] = {}
    for one in verb.every_parameter:
        if one.is_rest:
            values |= rest_of(verb, getattr(body, "options", {}))
        elif dataclasses.is_dataclass(one.type):
            made: Any = one.type
            values[one.name] = made(**{part: getattr(body, part) for part, _, _ in _parts(made)})
        elif hasattr(body, _member(one)):
            value = getattr(body, _member(one))
            is_span = one.type is timedelta and value is not None
            values[one.name] = one.checked(timedelta(milliseconds=value) if is_span else value)
    return values


def _parts(kind: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, type and default of what stands for itself in a body, and not below a name."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for one in dataclasses.fields(kind):
        yield one.name, hints[one.name], one.default


def rest_of(verb: Verb, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options, which may not be named like a parameter; raise InvalidOption."""
    taken = inspect.signature(verb.function).parameters
    for name in options:
        if name in taken:
            raise InvalidOption(f"options.{name}", "is no option of an action")
    return options


def _reason(parameter: Parameter) -> tuple[Any, Any]:
    if parameter.is_required:
        return str, Field(min_length=1, max_length=REASON_LIMIT)
    if parameter.default is None:
        return str | None, Field(None, min_length=1, max_length=REASON_LIMIT)
    return str, Field("", max_length=REASON_LIMIT)


def _member(parameter: Parameter) -> str:
    return f"{parameter.name}_ms" if parameter.type is timedelta else parameter.name


def _field(parameter: Parameter, is_required: bool) -> tuple[Any, Any]:
    annotation, default = parameter.annotation, parameter.default
    if parameter.type is timedelta:
        span = Annotated[int, Field(ge=0, le=LONGEST_MS)]
        annotation = span | None if parameter.is_optional else span
        if isinstance(default, timedelta):
            default = round(default.total_seconds() * 1000)
    if is_required:
        annotation = annotation if not parameter.is_optional else _without_none(annotation)
    default = ... if parameter.is_required or is_required else default
    return annotation, Field(default, description=parameter.help or None)


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) is Annotated:
        inner = _without_none(annotation.__origin__)
        return Annotated[(inner, *annotation.__metadata__)]
    inside = [one for one in typing.get_args(annotation) if one is not type(None)]
    return typing.Union[tuple(inside)]  # noqa: UP007
