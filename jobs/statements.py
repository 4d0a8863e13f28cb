"""Statements of an app's own for its hot paths: what an ORM costs is saved, and nothing else.

::

    _TAKE = Statement("shop_take", "UPDATE shop_stock SET left = left - 1 WHERE id = $1::uuid "
                      "RETURNING json_build_object('left', left)")

    [row] = _TAKE.rows([stock_id])              # {"left": 3}

Runs in the thread's connection and transaction like any query, and in one round trip: where it is
the first of a transaction, BEGIN travels with it. With ``JOBS["PREPARE"]`` it is planned once per
session. Logs see its text and never a value.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
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
Value = str | int | float | bool | UUID | datetime | Sequence[str] | None


class Statement:
    """A statement with the parameters ``$1``, ``$2``, … that answers one column of JSON, or none.

    No two statements may share a ``name``. Parameters are bound by PostgreSQL; cast those whose
    type it cannot know (``$1::uuid``).
    """

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self._encoded = text.encode()

    def __repr__(self) -> str:
        return f"Statement({self.name!r})"

    def rows(self, values: Sequence[Value] = (), *, using: str = "default") -> list[Any]:
        """What each row holds."""
        conn = connections[using]
        began = time.monotonic()
        result = calls.ask(conn, self.name, self._encoded, [_bound(value) for value in values])
        if conn.queries_logged:
            took = f"{time.monotonic() - began:.3f}"
            conn.queries_log.append({"sql": self.text, "time": took})
        found = (result.get_value(row, 0) for row in range(result.ntuples))
        return [None if text is None else json.loads(text) for text in found]


class Columns:
    """The columns of a model as an INSERT names them, and what it takes for a row.

    Columns that the database fills in are left out. Encrypted columns and indexes are made as
    ``save()`` makes them; nobody is told by a signal.
    """

    def __init__(self, model: type[Model], using: str = "default") -> None:
        conn = connections[using]
        self._conn = conn
        self._fields = [
            field
            for field in model._meta.local_concrete_fields
            if not field.has_db_default() and not field.db_returning
        ]
        self._plain = {f for f in self._fields if type(f) in _PLAIN}
        self.names = ", ".join(conn.ops.quote_name(str(f.column)) for f in self._fields)
        self._types = [_without_length(str(f.db_type(conn))) for f in self._fields]

    def __len__(self) -> int:
        return len(self._fields)

    def holes(self, first: int) -> str:
        """Their parameters, from this number on."""
        return ", ".join(f"${first + n}::{type}" for n, type in enumerate(self._types))

    def values(self, row: Model) -> list[Any]:
        """What the parameters are for this row."""
        plain, held = self._plain, row.__dict__
        return [
            held[f.attname] if f in plain else f.get_db_prep_save(f.pre_save(row, True), self._conn)
            for f in self._fields
        ]


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
