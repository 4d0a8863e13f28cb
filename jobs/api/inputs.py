"""Bodies of requests: their base, and those that are made of the parameters of a verb."""

from __future__ import annotations

import functools
import inspect
import typing
from datetime import timedelta
from typing import Annotated, Any

from ninja import Schema
from pydantic import ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel

from jobs.errors import InvalidOption
from jobs.operate.parameters import LONGEST, Parameter
from jobs.operate.verbs import Verb
from jobs.operate.words import REASON_LIMIT

_MILLISECOND = timedelta(milliseconds=1)


class In(Schema):
    """Base of every body: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid")


@functools.cache
def body_of(
    verb: Verb,
    with_target: bool = False,
    required: tuple[str, ...] = (),
    name: str = "",
    is_camel: bool = False,
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
        elif one.name != "reason":
            for part in one.parts:
                fields[member(part, is_camel)] = _field(part, one.name in required)
    name = name or f"{verb.noun}_{verb.action}"
    title = "".join(part.capitalize() for part in name.split("_"))
    module = verb.function.__module__
    made: type[In] = create_model(
        f"{title}In", __base__=In, __doc__=verb.summary, __module__=module, **fields
    )
    return made


def values_of(verb: Verb, body: In, is_camel: bool = False) -> dict[str, Any]:
    """Return what the body gives to the parameters of the verb, by name."""
    values: dict[str, Any] = {}
    for one in verb.every_parameter:
        if one.is_rest:
            values |= rest_of(verb, getattr(body, "options", {}))
            continue
        named = [(part, member(part, is_camel)) for part in one.parts]
        given = {
            part.name: _given(part, getattr(body, name))
            for part, name in named
            if hasattr(body, name)
        }
        if given:
            values[one.name] = one.joined(given)
    return values


def _given(parameter: Parameter, value: Any) -> Any:
    is_span = parameter.type is timedelta and value is not None
    return timedelta(milliseconds=value) if is_span else value


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


def member(parameter: Parameter, is_camel: bool = False) -> str:
    """Return the name of the parameter in a body; a length of time is in milliseconds."""
    name = f"{parameter.name}_ms" if parameter.type is timedelta else parameter.name
    return to_camel(name) if is_camel else name


def _field(parameter: Parameter, is_required: bool) -> tuple[Any, Any]:
    annotation, default = parameter.annotation, parameter.default
    if parameter.type is timedelta:
        least, most = parameter.bound("ge") or timedelta(0), parameter.bound("le") or LONGEST
        span = Annotated[int, Field(ge=ms(least), le=ms(most))]
        annotation = span | None if parameter.is_optional else span
        default = ms(default) if isinstance(default, timedelta) else default
    if is_required:
        annotation = annotation if not parameter.is_optional else _without_none(annotation)
    default = ... if parameter.is_required or is_required else default
    return annotation, Field(default, description=parameter.help or None)


def ms(length: timedelta) -> int:
    """Return the length in milliseconds, as every body spells it."""
    return length // _MILLISECOND


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) is Annotated:
        inner = _without_none(annotation.__origin__)
        return Annotated[(inner, *annotation.__metadata__)]
    inside = [one for one in typing.get_args(annotation) if one is not type(None)]
    return typing.Union[tuple(inside)]  # noqa: UP007
