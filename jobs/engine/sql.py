"""Running the engine's statements on the database that holds the jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import psycopg
from django.db import DatabaseError, InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import pq

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


def call(function: str, arguments: Sequence[Any]) -> bytes | None:
    """What the database function answers, as text: for one cheap call on a hot path.

    Speaks libpq directly, which takes a quarter of the time of a cursor. Arguments are texts,
    numbers, UUIDs, moments or None.
    """
    conn = connection()
    conn.ensure_connection()
    conn.validate_no_broken_transaction()
    raw = conn.connection
    holes = ", ".join(f"${n}" for n in range(1, len(arguments) + 1))
    with conn.wrap_database_errors:
        if not raw.autocommit and raw.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            raw.execute("SELECT 1")  # psycopg begins the transaction with its first statement
        result = raw.pgconn.exec_params(
            f"SELECT {function}({holes})".encode(),
            [None if value is None else str(value).encode() for value in arguments],
        )
        if result.status == pq.ExecStatus.TUPLES_OK:
            return cast("bytes | None", result.get_value(0, 0))
        if raw.pgconn.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError(raw.pgconn.get_error_message())
        raise psycopg.errors.error_from_result(result)


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
        return any(not block._from_testcase for block in conn.atomic_blocks)
    return not conn.get_autocommit()


def close() -> None:
    """This thread's connection is closed; the next statement opens another."""
    connection().close()
