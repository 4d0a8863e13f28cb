"""What people give to a verb: read from the signature of its function.

A parameter says more by its annotation::

    until: Annotated[datetime | None, Field(description="resume by itself then")] = None
"""

from __future__ import annotations

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

from jobs.errors import InvalidOption
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
Patch = Annotated[
    Mapping[str, Any] | None,
    Field(description="fields of the payload to replace, as JSON (null removes one)"),
]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something that people give to a verb."""

    name: str
    annotation: Any = field(repr=False)
    """As it is declared, with what describes it."""
    type: Any
    """One of ``PLAIN``, a payload or another class; ``Any`` for JSON."""
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
        return self.type is Any or self.type in PLAIN or _is_of_platform(self.type)

    def checked(self, value: Any) -> Any:
        """Return the value as the annotation allows it, whatever face it was given to.

        Raises InvalidOption.
        """
        if value is None or self.is_rest or self.type not in PLAIN:
            return value
        for one in value if self.is_many and isinstance(value, list | tuple) else [value]:
            if problem := _problem_of(one):
                raise InvalidOption(self.name, problem)
        try:
            return TypeAdapter(self.annotation).validate_python(value)
        except ValidationError as error:
            raise InvalidOption(self.name, _said(error)) from None


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
}  # fmt: skip
"""What is said of a value that is not allowed, which pages say in other languages, too."""


def _said(error: ValidationError) -> str:
    first = error.errors()[0]
    known = _SAID.get(first["type"])
    if first["type"] == "string_too_short" and first["ctx"]["min_length"] == 1:
        return "is empty"
    return first["msg"] if known is None else known.format_map(first.get("ctx", {}))


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
        kind, choices, is_many = _read(annotation)
        if inspect.isclass(kind) and issubclass(kind, Payload) and parameter.default is None:
            continue
        found.append(
            Parameter(
                name,
                annotation,
                kind,
                parameter.default,
                (about.description or "") if about is not None else "",
                choices,
                is_many,
                parameter.kind is parameter.POSITIONAL_OR_KEYWORD,
                parameter.kind is parameter.VAR_KEYWORD,
                _may_be_none(annotation),
            )
        )
    return tuple(found)


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
        options = [one for one in inside if one is not type(None)]
        if timedelta in options:
            return timedelta, (), False
        return _read(options[0])
    if origin is Literal and all(isinstance(one, str) for one in inside):
        return str, inside, False
    if origin in MANY:
        kind, choices, _ = _read(inside[0]) if inside else (str, (), False)
        return kind, choices, True
    plain = origin or annotation
    if inspect.isclass(plain) and issubclass(plain, Mapping):
        return Any, (), False
    return annotation, (), False
