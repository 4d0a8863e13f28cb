"""Empty the database after a test that has committed: as ``flush`` does, but what was filled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.management.color import no_style
from django.db import DEFAULT_DB_ALIAS, ProgrammingError, connection
from django.test import TransactionTestCase

_whole: Callable[[Any], None] = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]
_REFERENCES = """
SELECT confrelid::regclass::text, conrelid::regclass::text FROM pg_constraint
WHERE contype = 'f' AND connamespace = current_schema()::regnamespace AND conparentid = 0
"""


class Flush:
    """Empties tables; knows the rows, such as permissions, that each flush would write again."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}
        self._tables: list[str] = []
        self._referring: dict[str, set[str]] = {}

    def __call__(self, case: Any) -> None:
        """Empty what the test has filled, or flush everything where it has touched kept rows."""
        if set(case._databases_names(include_mirrors=False)) != {DEFAULT_DB_ALIAS}:
            _whole(case)
        elif not self._tables or not self._emptied():
            _whole(case)
            self._learn()

    def _emptied(self) -> bool:
        try:
            return self._empty()
        except ProgrammingError:  # a test has dropped a table
            return False

    def _learn(self) -> None:
        self._tables = connection.introspection.django_table_names(
            only_existing=True, include_views=False
        )
        self._referring = {}
        with connection.cursor() as cursor:
            cursor.execute(_REFERENCES)
            for target, source in cursor.fetchall():
                self._referring.setdefault(target, set()).add(source)
        self._kept = _prints(self._filled())

    def _empty(self) -> bool:
        filled = self._filled()
        if _prints([name for name in filled if name in self._kept]) != self._kept:
            return False
        names = self._with_referring(filled - set(self._kept))
        if names & set(self._kept):
            return False
        if names:
            statements = connection.ops.sql_flush(no_style(), sorted(names))
            connection.ops.execute_sql_flush(statements)
        return True

    def _filled(self) -> set[str]:
        asked = " UNION ALL ".join(
            f"SELECT '{name}' WHERE EXISTS (SELECT FROM {_quoted(name)})"  # noqa: S608
            for name in self._tables
        )
        with connection.cursor() as cursor:
            cursor.execute(asked)
            return {name for (name,) in cursor.fetchall()}

    def _with_referring(self, names: set[str]) -> set[str]:
        """Return the tables and all that refer to them, without which none can be truncated."""
        found, ahead = set[str](), list(names)
        while ahead:
            name = ahead.pop()
            if name not in found:
                found.add(name)
                ahead += self._referring.get(name, ())
        return found


def install() -> None:
    """Let every test that commits be followed by this instead of ``flush``."""
    flush = Flush()
    TransactionTestCase._fixture_teardown = lambda case: flush(case)  # type: ignore[attr-defined]


def _prints(names: Any) -> dict[str, str]:
    found = {}
    with connection.cursor() as cursor:
        for name in sorted(names):
            rows = "string_agg(t::text, '' ORDER BY t::text)"
            cursor.execute(f"SELECT md5({rows}) FROM {_quoted(name)} t")  # noqa: S608
            found[name] = cursor.fetchone()[0]
    return found


def _quoted(name: str) -> str:
    quoted: str = connection.ops.quote_name(name)
    return quoted
