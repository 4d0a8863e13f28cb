"""The SQL functions that this version ships: what its migrations leave in a database.

PostgreSQL keeps the body of a function as it was written, so it can be compared with the migration
that wrote it last, on any version of the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import RunSQL, SeparateDatabaseAndState
from django.db.migrations.operations.base import Operation

from jobs.engine import sql

Key = tuple[str, int]
"""The name of a function, and how many arguments it takes."""

_STEP = re.compile(r"\b(CREATE(?:\s+OR\s+REPLACE)?|DROP)\s+FUNCTION\s+(\w+)\s*\(")
_BODY = re.compile(r"\bAS\s+(\$\w*\$)(.*?)\1", re.DOTALL)


def problems() -> Iterator[tuple[str, str]]:
    """The functions that are missing, or are not those that this version ships."""
    found = _installed()
    for key, body in sorted(shipped().items()):
        if key not in found:
            yield key[0], "the function is missing"
        elif found[key] != body:
            yield key[0], "the function is not the one that this version ships"


def _installed() -> dict[Key, str]:
    rows = sql.rows(
        "SELECT proname, pronargs, prosrc FROM pg_proc "
        "WHERE proname LIKE 'jobs%%' AND pg_function_is_visible(oid)"
    )
    return {(name, arguments): body for name, arguments, body in rows}


@cache
def shipped() -> dict[Key, str]:
    """The bodies of the functions, as the last migration that speaks of each has left them."""
    graph = MigrationLoader(None, ignore_no_migrations=True).graph
    known: dict[Key, str] = {}
    for leaf in graph.leaf_nodes("jobs"):
        for app, name in graph.forwards_plan(leaf):
            if app == "jobs":
                for text in _statements(graph.nodes[app, name].operations):
                    _follow(text, known)
    return known


def _statements(operations: Iterable[Operation]) -> Iterator[str]:
    for operation in operations:
        if isinstance(operation, SeparateDatabaseAndState):
            yield from _statements(operation.database_operations)
        elif isinstance(operation, RunSQL):
            parts = [operation.sql] if isinstance(operation.sql, str) else operation.sql
            yield from (part if isinstance(part, str) else part[0] for part in parts)


def _follow(text: str, known: dict[Key, str]) -> None:
    """Do to the known functions what the SQL does to those of the database."""
    step = _STEP.search(text)
    while step is not None:
        end, count = _arguments(text, step.end())
        if step[1] == "DROP":
            known.pop((step[2], count), None)
        elif body := _BODY.search(text, end):
            known[step[2], count] = body[2]
            end = body.end()
        step = _STEP.search(text, end)


def _arguments(text: str, start: int) -> tuple[int, int]:
    """Return the place behind the arguments that begin here, and how many there are."""
    depth, commas = 1, 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        commas += depth == 1 and text[place] == ","
        if depth == 0:
            return place + 1, commas + 1 if text[start:place].strip() else 0
    return len(text), 0
