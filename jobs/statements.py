"""Statements of an app's own for its hot paths: what an ORM costs is saved, and nothing else.

::

    _TAKE = Statement("shop_take", '''
        UPDATE shop_stock SET left = left - 1 WHERE id = %(stock)s::uuid
        RETURNING json_build_object('left', left)
    ''')

    [row] = _TAKE.rows({"stock": stock_id})     # {"left": 3}

Runs in the thread's connection and transaction like any query, and in one round trip: where it is
the first of a transaction, BEGIN travels with it. With ``JOBS["PREPARE"]`` it is planned once per
session. Logs see its text and never a value.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import connections, models
from django.db.models import Model

from jobs.engine import calls
from jobs.engine.bulk import array

_PLAIN = {
    models.BooleanField, models.CharField, models.ForeignKey, models.PositiveIntegerField,
    models.PositiveSmallIntegerField, models.TextField, models.UUIDField,
}  # fmt: skip
"""Fields whose values are what PostgreSQL is told."""
_NAMED = re.compile(r"%\((\w+)\)s")
Value = str | int | float | bool | UUID | datetime | Sequence[str] | None
_NOTHING: Mapping[str, Value] = MappingProxyType({})


class Statement:
    """A statement with named parameters that answers one column of JSON, or none.

    A parameter is written ``%(name)s``; any other percent sign is left alone. No two statements
    may share a ``name``. Parameters are bound by PostgreSQL; cast those whose type it cannot know
    (``%(stock)s::uuid``).
    """

    def __init__(self, name: str, text: str) -> None:
        self.parameters = tuple(dict.fromkeys(_NAMED.findall(text)))
        numbers = {parameter: f"${n}" for n, parameter in enumerate(self.parameters, 1)}
        self.name, self.text = name, _NAMED.sub(lambda found: numbers[found[1]], text)
        self._encoded = self.text.encode()

    def __repr__(self) -> str:
        return f"Statement({self.name!r})"

    def rows(self, values: Mapping[str, Value] = _NOTHING, *, using: str = "default") -> list[Any]:
        """Return what each row holds."""
        conn = connections[using]
        began = time.monotonic()
        bound = [_bound(values[name]) for name in self.parameters]
        result = calls.ask(conn, self.name, self._encoded, bound)
        if conn.queries_logged:
            took = f"{time.monotonic() - began:.3f}"
            conn.queries_log.append({"sql": self.text, "time": took})
        found = (result.get_value(row, 0) for row in range(result.ntuples))
        return [None if text is None else json.loads(text) for text in found]


class Columns:
    """The columns of a model as an INSERT names them, and a parameter for each.

    ::

        _EVENT = Columns(Event, prefix="event")

        f"INSERT INTO shop_event ({_EVENT.names}) SELECT {_EVENT.parameters}"

    Columns that the database fills in are left out. Encrypted columns and indexes are made as
    ``save()`` makes them; no signal is sent.
    """

    def __init__(self, model: type[Model], *, prefix: str, using: str = "default") -> None:
        conn = connections[using]
        self._conn = conn
        fields = [
            field
            for field in model._meta.local_concrete_fields
            if not field.has_db_default() and not field.db_returning
        ]
        self._fields = [(f"{prefix}_{f.column}", f, type(f) in _PLAIN) for f in fields]
        types = [_without_length(str(f.db_type(conn))) for f in fields]
        self.names = ", ".join(conn.ops.quote_name(str(f.column)) for f in fields)
        self.parameters = ", ".join(
            f"%({name})s::{type}" for (name, *_), type in zip(self._fields, types, strict=True)
        )

    def values(self, row: Model | None) -> dict[str, Any]:
        """Return the value of each parameter for this row; without a row, all are None."""
        if row is None:
            return {name: None for name, *_ in self._fields}
        held = row.__dict__
        return {
            name: held[f.attname]
            if is_plain
            else f.get_db_prep_save(f.pre_save(row, True), self._conn)
            for name, f, is_plain in self._fields
        }


def _bound(value: Value) -> Any:
    """The value as PostgreSQL reads it; raises ValueError or TypeError where it would not."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("a text for PostgreSQL cannot hold a NUL character")
        return value
    if isinstance(value, list | tuple):
        return array([_bound(one) for one in value])
    if value is None or isinstance(value, int | float | UUID | datetime):
        return value
    raise TypeError(f"a statement takes texts, numbers, UUIDs, moments and lists, not {value!r}")


def _without_length(type: str) -> str:
    """A cast would cut off what is too long; so the column itself refuses it."""
    name, bracket, rest = type.partition("(")
    return name + rest.partition(")")[2] if bracket else type


__all__ = ["Columns", "Statement"]
