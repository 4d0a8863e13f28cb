"""Running the engine's statements on the database that holds the jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from django.db import (
    DatabaseError,
    DataError,
    Error,
    InterfaceError,
    InternalError,
    OperationalError,
    connections,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from jobs import conf

T = TypeVar("T")
Row = tuple[Any, ...]

_CONFLICTS = ("40P01", "40001")
_REPEATABLE = (*_CONFLICTS, "55P03")
_REPEATS = 8
NO_JIT = "SELECT set_config('jit', 'off', true)"
"""Compiling takes longer than any statement of ours, also where its estimated cost is high."""
QUICK_READS = "SELECT set_config('statement_timeout', %s, true), set_config('jit', 'off', true)"
"""Until the end of the transaction no statement takes longer, and none is compiled."""


def alias() -> str:
    """The database alias of the jobs."""
    return conf.settings().DATABASE


def connection() -> BaseDatabaseWrapper:
    """This thread's connection to the database of the jobs."""
    return connections[alias()]


def rows(statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
    """The rows that the statement returns."""
    with connection().cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def bound_rows(statement: str, parameters: Sequence[Any]) -> list[Row]:
    """The rows of a statement whose parameters PostgreSQL binds itself: for hot paths.

    Skips Django's client-side interpolation of parameters, which costs more than the statement
    when arrays are large.
    """
    conn = connection()
    conn.ensure_connection()
    conn.validate_no_broken_transaction()
    with conn.wrap_database_errors, psycopg.Cursor(conn.connection) as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def run(statement: str, parameters: Sequence[Any] = ()) -> int:
    """How many rows the statement touched."""
    with connection().cursor() as cursor:
        cursor.execute(statement, parameters)
        touched: int = cursor.rowcount
        return touched


def repeating(write: Callable[[], T]) -> T:
    """The write's answer, repeated after deadlocks and serialization failures.

    Inside somebody's transaction nothing is repeated: the transaction is broken by then.
    """
    for attempt in range(_REPEATS):
        try:
            return write()
        except DatabaseError as error:
            repeatable = sqlstate(error) in _REPEATABLE and not connection().in_atomic_block
            if not repeatable or attempt == _REPEATS - 1:
                raise
            time.sleep(0.002 * 2**attempt)
    raise AssertionError("unreachable")


def sqlstate(error: BaseException) -> str:
    """The SQLSTATE behind a Django database error, or nothing."""
    return getattr(error.__cause__, "sqlstate", None) or ""


def is_disconnected(error: BaseException) -> bool:
    """Return whether the server is away or refuses everybody, so that another try may succeed.

    Decided by SQLSTATE: Django wraps "the server is read-only" in an InternalError.
    """
    if not isinstance(error, Error):
        return False
    state = sqlstate(error)
    if not state:
        # The connection broke before the server could say anything, or what came made no sense:
        # PgBouncer passes on what a server said before it went, and then says so itself.
        return isinstance(error, OperationalError | InterfaceError | InternalError)
    return state.startswith(_AWAY)


_AWAY = (
    "08",  # the connection
    "53",  # out of connections, memory or disk
    "57P",  # shutdown or crash
    "25006",  # read-only: a standby, or a primary that is being replaced
    "25P03",  # the session was ended because its transaction was idle
)
_REFUSALS = (
    "22",  # the value is not one of its type
    "23",  # a constraint forbids it
    "54",  # it is too large or too complex
)


def is_refusal(error: BaseException) -> bool:
    """Return whether the value itself was refused, so that another try would fail, too.

    Every other error says something about the moment, and nothing about the value.
    """
    if not isinstance(error, Error):
        # What the driver makes of a value that it cannot send.
        return isinstance(error, ValueError | TypeError | OverflowError)
    state = sqlstate(error)
    return state.startswith(_REFUSALS) if state else isinstance(error, DataError)


def is_conflict(error: BaseException) -> bool:
    """Return whether the error is a deadlock or a serialization failure."""
    return isinstance(error, Error) and sqlstate(error) in _CONFLICTS


@contextmanager
def reading(limit: str) -> Iterator[None]:
    """Read in a transaction in which no statement takes longer than the limit or is compiled.

    A surrounding transaction (a test's) is left as it is.
    """
    if connection().in_atomic_block:
        yield
        return
    with transaction.atomic(using=alias()):
        run("SET TRANSACTION READ ONLY")
        rows(QUICK_READS, [limit])
        yield


def in_transaction() -> bool:
    """Whether this thread's next write would be committed only later, or not at all.

    A transaction that a test case puts around each test does not count.
    """
    conn = connection()
    if conn.in_atomic_block:
        return any(not getattr(block, "_from_testcase", False) for block in conn.atomic_blocks)
    if conn.connection is None:
        return not conn.settings_dict["AUTOCOMMIT"]  # asking the connection would open it
    return not conn.get_autocommit()


def in_event_loop() -> bool:
    """Whether this is a coroutine's thread, which must not wait for the database."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def close() -> None:
    """This thread's connection is closed; the next statement opens another."""
    connection().close()


def give_back() -> None:
    """Return this thread's connections to their pools, where there are pools."""
    for conn in connections.all(initialized_only=True):
        is_open = conn.connection is not None and not conn.in_atomic_block
        if is_open and conn.settings_dict["OPTIONS"].get("pool"):
            conn.close()
