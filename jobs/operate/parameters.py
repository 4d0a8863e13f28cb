"""What people give to a verb: read from the signature of its function.

A parameter says more by its annotation::

    until: Annotated[datetime | None, Field(description="resume automatically at this time")] = None
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from jobs import registry
from jobs.errors import InvalidOption, InvalidPayload
from jobs.names import NAME_LIMIT
from jobs.payloads import Payload

MANY: tuple[Any, ...] = (list, tuple, set, frozenset, Sequence, Iterable, Collection)
PLAIN = (bool, int, float, str, UUID, datetime, date, time, timedelta)
LONGEST = timedelta(days=3660)
LARGEST = 2**63
UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
HIDDEN = Field(exclude=True)
"""Marks a parameter that only code gives."""
REQUIRED: Any = inspect.Parameter.empty

Until = Annotated[datetime | None, Field(description="until this time, like 2030-01-31T18:00Z")]
At = Annotated[datetime | None, Field(description="not before this time, like 2030-01-31T18:00Z")]
Force = Annotated[
    bool, Field(description="end the process of a running job that does not stop by itself")
]
Attempts = Annotated[int | None, Field(ge=1, le=1000, description="allow this many more failures")]
Reset = Annotated[bool, Field(description="with the whole budget of attempts again")]
Priority = Annotated[int | None, Field(ge=-100, le=100, description="higher runs sooner")]
QueueName = Annotated[str | None, Field(max_length=NAME_LIMIT, description="name of the queue")]
Tenant = Annotated[str | None, Field(max_length=NAME_LIMIT, description="owner of the jobs")]
Content = Annotated[
    Mapping[str, Any] | Payload | None,
    Field(description="a payload of the same kind to use instead, as JSON"),
]
Lineage = Annotated[bool, Field(description="keep the keys and the line of the old job")]
Patch = Annotated[
    Mapping[str, Any] | None,
    Field(description="fields of the payload to replace, as JSON (null removes one)"),
]

_KIND = Annotated[
    str, Field(min_length=1, max_length=NAME_LIMIT, description="kind of the jobs that it makes")
]
_CONTENT = Annotated[dict[str, Any], Field(description="their payload, as JSON")]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something that people give to a verb."""

    name: str
    annotation: Any = field(repr=False)
    """As it is declared, with what describes it."""
    type: Any
    """One of ``PLAIN``, a payload or another class; ``dict`` and ``Any`` for JSON."""
    default: Any = REQUIRED
    help: str = ""
    choices: tuple[str, ...] = ()
    is_many: bool = False
    by_place: bool = False
    """Whether it stands before ``by``, and so is named by its place."""
    is_rest: bool = False
    """Whether it takes whatever else is given, by name."""
    is_optional: bool = False
    """Whether it may be None."""

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def words(self) -> str:
        """Its description, or its name."""
        return self.help or self.name.replace("_", " ")

    def bound(self, name: str) -> Any:
        """Return a bound of its declaration, like ``ge`` or ``max_length``; None without one."""
        metadata = getattr(_about(self.annotation), "metadata", ())
        return next(
            (found for one in metadata if (found := getattr(one, name, None)) is not None), None
        )

    @property
    def flag(self) -> str:
        return self.name.replace("_", "-")

    @property
    def is_supported(self) -> bool:
        """Whether every face can ask for it. Payloads and other classes are the platform's."""
        return self.type in (dict, Any, *PLAIN) or _is_of_platform(self.type)

    @property
    def parts(self) -> tuple[Parameter, ...]:
        """The values that people give for it: several for a payload or a dataclass."""
        if self.is_payload:
            return (
                _made("kind", _KIND, REQUIRED, by_place=self.by_place),
                _made("payload", _CONTENT, {}, by_place=self.by_place),
            )
        if dataclasses.is_dataclass(self.type):
            hints = typing.get_type_hints(self.type, include_extras=True)
            return tuple(
                _made(one.name, hints[one.name], one.default, by_place=self.by_place)
                for one in dataclasses.fields(self.type)  # each has a default
            )
        return (self,)

    @property
    def is_payload(self) -> bool:
        """Whether it is the payload of a job of any kind."""
        return inspect.isclass(self.type) and issubclass(self.type, Payload)

    def joined(self, given: Mapping[str, Any]) -> Any:
        """Return the value that is made of those of its parts; raises InvalidOption."""
        values = {one.name: one.checked(given[one.name]) for one in self.parts if one.name in given}
        if self.is_payload:
            return payload_of(values["kind"], values.get("payload") or {})
        if dataclasses.is_dataclass(self.type):
            made: Any = self.type
            return made(**{name: value for name, value in values.items() if value is not None})
        return values[self.name]

    def checked(self, value: Any, *, strict: bool = False) -> Any:
        """Return the value as the annotation allows it, whatever face it was given to.

        A ``strict`` check takes no value of another type. Raises InvalidOption.
        """
        if self.type is dict and not isinstance(value, Mapping | Payload | None):
            raise InvalidOption(self.name, "must be a JSON object")
        if value is None or self.is_rest or self.type not in PLAIN:
            return value
        for one in value if self.is_many and isinstance(value, list | tuple) else [value]:
            if problem := _problem_of(one):
                raise InvalidOption(self.name, problem)
        try:
            return TypeAdapter(self.annotation).validate_python(value, strict=strict)
        except ValidationError as error:
            raise InvalidOption(self.name, _said(error)) from None


def payload_of(kind: str, content: object) -> Payload:
    """Return a payload of this kind with this content; raises InvalidPayload or UnknownKind."""
    if not isinstance(content, Mapping):
        raise InvalidPayload(kind, "payload", "must be a JSON object")
    return registry.get(kind).payload.build(dict(content))


_WHOLE, _NUMBER = "must be a whole number", "must be a number"
_SAID = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "literal_error": "must be one of: {expected}",
    "int_type": _WHOLE, "int_parsing": _WHOLE, "int_from_float": _WHOLE,
    "float_type": _NUMBER, "float_parsing": _NUMBER,
    "bool_type": "must be true or false",
}  # fmt: skip
"""What is said of a value that is not allowed, which pages say in other languages, too."""


def _said(error: ValidationError) -> str:
    first = error.errors()[0]
    known = _SAID.get(first["type"])
    if first["type"] == "string_too_short" and first["ctx"]["min_length"] == 1:
        return "is empty"
    bounds = {name: _plain(bound) for name, bound in first.get("ctx", {}).items()}
    return first["msg"] if known is None else known.format_map(bounds)


def _plain(bound: Any) -> Any:
    return f"{bound.total_seconds():g} s" if isinstance(bound, timedelta) else bound


def _is_of_platform(kind: Any) -> bool:
    if not inspect.isclass(kind):
        return False
    return issubclass(kind, Payload) or kind.__module__.startswith("jobs.")


def _problem_of(value: Any) -> str:
    """Return why the value cannot be stored or computed with, whatever is declared."""
    if isinstance(value, str) and UNSTORABLE.search(value):
        return "holds a NUL or a lone surrogate"
    if isinstance(value, float) and not math.isfinite(value):
        return "is no finite number"
    if isinstance(value, int) and abs(value) >= LARGEST:
        return "is too large"
    if isinstance(value, timedelta) and not timedelta(0) <= value <= LONGEST:
        return f"must be from 0 to {LONGEST.days} days"
    return ""


def of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return what the function takes from people, in its order."""
    hints = typing.get_type_hints(function, include_extras=True)
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = hints.get(name, Any)
        about = _about(annotation)
        if name == "by" or (about is not None and about.exclude):
            continue
        found.append(
            _made(
                name,
                annotation,
                parameter.default,
                by_place=parameter.kind is parameter.POSITIONAL_OR_KEYWORD,
                is_rest=parameter.kind is parameter.VAR_KEYWORD,
            )
        )
    return tuple(found)


def _made(name: str, annotation: Any, default: Any, **how: bool) -> Parameter:
    annotation, about = _for_people(annotation), _about(annotation)
    kind, choices, is_many = _read(annotation)
    words = (about.description or "") if about is not None else ""
    optional = _may_be_none(annotation)
    return Parameter(
        name, annotation, kind, default, words, choices, is_many, is_optional=optional, **how
    )


_OF_CODE = (Payload, float, int)


def _for_people(annotation: Any) -> Any:
    """Return the annotation without what only code gives: lengths in seconds, payloads made."""
    if typing.get_origin(annotation) is Annotated:
        inner = _for_people(annotation.__origin__)
        return Annotated[(inner, *annotation.__metadata__)]
    inside = typing.get_args(annotation)
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    if timedelta not in inside and Payload not in inside:
        return annotation
    return typing.Union[tuple(one for one in inside if one not in _OF_CODE)]  # noqa: UP007


def _may_be_none(annotation: Any) -> bool:
    if typing.get_origin(annotation) is Annotated:
        return _may_be_none(annotation.__origin__)
    return type(None) in typing.get_args(annotation)


def _about(annotation: Any) -> FieldInfo | None:
    if typing.get_origin(annotation) is Annotated:
        return next((one for one in annotation.__metadata__ if isinstance(one, FieldInfo)), None)
    return None


def _read(annotation: Any) -> tuple[Any, tuple[str, ...], bool]:
    """Return the type without None and what describes it, its choices, and whether it is many."""
    if typing.get_origin(annotation) is Annotated:
        return _read(annotation.__origin__)
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _read(next(one for one in inside if one is not type(None)))
    if origin is Literal and all(isinstance(one, str) for one in inside):
        return str, inside, False
    if origin in MANY:
        kind, choices, _ = _read(inside[0]) if inside else (str, (), False)
        return kind, choices, True
    plain = origin or annotation
    if inspect.isclass(plain) and issubclass(plain, Mapping):
        return dict, (), False
    return annotation, (), False
