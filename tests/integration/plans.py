"""The plans of everything that processes ask PostgreSQL, as the server's log shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

DISABLED = 1e10
"""What PostgreSQL before 18 adds to the cost of a plan that is switched off."""
_SETTINGS = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
}
_ENTRY = re.compile(r"plan:\n\tQuery Text: (.*\n(?:\t.*\n)*)")
_COST = re.compile(r"\(cost=[\d.]+?\.\.([\d.]+) rows=")
_SIGNS = re.compile(r"^\s+(JIT:|Disabled: true)", re.MULTILINE)


@contextmanager
def logging(superuser_url: str) -> Iterator[None]:
    """Make new connections to the database log their plans."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        try:
            connection.execute("LOAD 'auto_explain'")
        except psycopg.errors.UndefinedFile:
            pytest.skip("this PostgreSQL has no auto_explain: SERVERS=stock has it")
        change = f"ALTER DATABASE {connection.info.dbname}"
        for name, value in _SETTINGS.items():
            connection.execute(f"{change} SET {name} = '{value}'".encode())
        try:
            yield
        finally:
            connection.execute(f"{change} RESET ALL".encode())


def logged(text: str) -> Iterator[str]:
    """Return the statements in a server's log, each with its plan."""
    for found in _ENTRY.finditer(text):
        yield found[1]


def is_wasteful(plan: str) -> bool:
    """Return whether the statement was compiled, or carried out in a way that is switched off."""
    costs = [float(cost) for cost in _COST.findall(plan)]
    return bool(_SIGNS.search(plan)) or max(costs, default=0) >= DISABLED
