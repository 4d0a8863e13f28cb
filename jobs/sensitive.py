"""Payload fields that are somebody's secret: sealed in the column, masked wherever they are shown.

::

    class Register(jobs.Payload, kind="crm.register"):
        customer_id: int
        cpf: jobs.Sensitive[str]

The handler sees ``payload.cpf`` as it was given. In the row the field is
``{"$sealed": "enc1.…"}``, bound to the job's id, its tenant and the field's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, cast, get_args
from uuid import UUID

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import core_schema

from jobs import jsontext, keyring
from jobs.errors import SealError
from jobs.keyring import Place
from jobs.masks import HIDDEN

T = TypeVar("T")

MARK = "$sealed"
IN_TEXT = f'"{MARK}"'
"""JSON text without this has nothing sealed: texts cannot contain it, their quotes are escaped."""
CLEAR = object()
"""The context in which a payload is serialized for its row; in any other it is masked."""
_KEY_IDS = re.compile(rf'"\{MARK}": ?"{keyring.FORMAT}\.([A-Za-z0-9_-]+)\.')


class SensitiveMark:
    """What ``Sensitive[…]`` adds to a field's type."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        inner: dict[str, Any] = dict(handler(source))
        masking = core_schema.wrap_serializer_function_ser_schema(
            _serialized, info_arg=True, schema=cast("core_schema.CoreSchema", inner)
        )
        return cast("core_schema.CoreSchema", {**inner, "serialization": masking})


def _serialized(value: Any, handler: core_schema.SerializerFunctionWrapHandler, info: Any) -> Any:
    return handler(value) if info.context is CLEAR else HIDDEN


Sensitive = Annotated[T, SensitiveMark()]
"""``Sensitive[str]`` is a ``str`` that nobody but the handler reads."""


def sensitive_fields(model: type[BaseModel]) -> frozenset[str]:
    """The fields that are declared sensitive."""
    return frozenset(
        name
        for name, field in model.model_fields.items()
        if any(isinstance(one, SensitiveMark) for one in field.metadata)
    )


def misplaced_mark(model: type[BaseModel]) -> str:
    """The field inside of whose type something is sensitive, which nothing would seal."""
    for name, field in model.model_fields.items():
        if _has_mark(field.annotation, set()):
            return name
    return ""


def _has_mark(annotation: Any, seen: set[int]) -> bool:
    if id(annotation) in seen:
        return False
    seen.add(id(annotation))
    if isinstance(annotation, SensitiveMark):
        return True
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return bool(sensitive_fields(annotation)) or any(
            _has_mark(field.annotation, seen) for field in annotation.model_fields.values()
        )
    metadata = getattr(annotation, "__metadata__", ())
    return any(_has_mark(part, seen) for part in (*get_args(annotation), *metadata))


# ---- JSON text with sealed parts


def place_of(text: str, job_id: UUID, tenant: str) -> Place | None:
    """Where the payload's sealed parts belong; None where it has none."""
    return keyring.job_place(job_id, tenant) if IN_TEXT in text else None


def sealed(value: Any, place: Place, field: str, limit: int) -> dict[str, str]:
    """The JSON-shaped value as it is stored; raises jsontext.UnstorableValue."""
    clear = jsontext.dumps(value, limit).encode()
    return {MARK: keyring.ring().seal(clear, _column(place, field))}


def opened(text: str, place: Place | None) -> str:
    """The JSON text with everything in clear; raises a SealError that names the field."""
    if IN_TEXT not in text:
        return text
    data = json.loads(text)
    for field, box in list(_boxes(data)):
        if place is None:
            raise SealError(f"{field} is sealed, and nobody says where it belongs")
        data[field] = json.loads(keyring.ring().open(box, _column(place, field)))
    return json.dumps(data)


def moved(text: str, source: Place, target: Place, *, stale: str = "") -> str:
    """The text, sealed again for another place; with ``stale``, only what has another key."""
    if IN_TEXT not in text:
        return text
    data = json.loads(text)
    ring = keyring.ring()
    for field, box in list(_boxes(data)):
        if not stale or keyring.key_id(box) != stale:
            clear = ring.open(box, _column(source, field))
            data[field] = {MARK: ring.seal(clear, _column(target, field))}
    return json.dumps(data)


def masked(data: Any) -> Any:
    """JSON-shaped data as anybody may see it: what is sealed is hidden, at any depth."""
    if isinstance(data, Mapping):
        if len(data) == 1 and MARK in data:
            return HIDDEN
        return {key: masked(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [masked(value) for value in data]
    return data


def reserved_field(data: Mapping[str, Any]) -> str:
    """The field whose plain value looks as if it were sealed."""
    return next((name for name, _ in _boxes(data)), "")


def key_ids(text: str) -> set[str]:
    """The ids of the keys with which parts of the JSON text are sealed."""
    return set(_KEY_IDS.findall(text)) if IN_TEXT in text else set()


def leaves(value: Any) -> Iterator[str]:
    """Every text and number inside of JSON-shaped data, as text."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, bool) or value is None:
        return
    else:
        yield str(value)


def _boxes(data: Any) -> Iterable[tuple[str, str]]:
    """The sealed fields of a payload, which lie on its first level."""
    if isinstance(data, Mapping):
        for field, value in data.items():
            if isinstance(value, Mapping) and len(value) == 1 and isinstance(value.get(MARK), str):
                yield field, value[MARK]


def _column(place: Place, field: str) -> Place:
    return place.at(f"{place.column}.{field}")
