"""Running the engine's statements on the database that holds the jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
from django.db import DatabaseError, InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from jobs import conf

T = TypeVar("T")
Row = tuple[Any, ...]

DISCONNECTED = (OperationalError, InterfaceError)
"""What a lost or refused connection raises."""
_REPEATABLE = ("40P01", "40001", "55P03")
_REPEATS = 8


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
    """Whether the error means that the connection is gone, so that another may succeed."""
    if isinstance(error, InterfaceError):
        return True
    if not isinstance(error, OperationalError):
        return False
    state = sqlstate(error)
    # 08: connection, 57P: shutdown or crash of the server, 53: it refuses for now; no state:
    # the socket broke before the server could say anything.
    return not state or state[:2] in ("08", "53") or state[:3] == "57P" or state == "25006"


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
