"""Statements of hot paths, by libpq and in one round trip each.

A cursor costs more than what it asks for. Where the statement is the first of a transaction, BEGIN
travels with it.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import pq

from jobs import conf
from jobs.engine import sql


def call(function: str, arguments: Sequence[Any]) -> bytes | None:
    """What the function answers, as text. Arguments are texts, numbers, UUIDs, moments or None."""
    statement = _statement(function, len(arguments))
    return ask(sql.connection(), f"call_{function}", statement, arguments).get_value(0, 0)


def ask(
    conn: BaseDatabaseWrapper, name: str, statement: bytes, arguments: Sequence[Any]
) -> pq.abc.PGresult:
    """The result of the statement, all in text; raises Django's errors.

    With ``JOBS["PREPARE"]`` it is prepared once per session under its name, which a pooler of
    transactions would not bear.
    """
    conn.ensure_connection()
    conn.validate_no_broken_transaction()
    raw = conn.connection
    values = [None if value is None else str(value).encode() for value in arguments]
    with conn.wrap_database_errors:
        result = _ask(raw, name, statement, values)
        if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            return result
        if raw.pgconn.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError(raw.pgconn.get_error_message())
        raise psycopg.errors.error_from_result(result)


@cache
def _statement(function: str, arguments: int) -> bytes:
    holes = ", ".join(f"${n}" for n in range(1, arguments + 1))
    return f"SELECT {function}({holes})".encode()


def _ask(
    raw: psycopg.Connection[Any], name: str, statement: bytes, values: list[bytes | None]
) -> pq.abc.PGresult:
    if raw.autocommit or raw.pgconn.transaction_status != pq.TransactionStatus.IDLE:
        return _run(raw, name, statement, values)
    if raw.isolation_level is None and raw.read_only is None and raw.deferrable is None:
        return _begin_and_ask(raw, name, statement, values)
    raw.execute("SELECT 1")  # psycopg knows how to begin such a transaction
    return _run(raw, name, statement, values)


_prepared: WeakKeyDictionary[psycopg.Connection[Any], set[str]] = WeakKeyDictionary()


def _is_prepared(raw: psycopg.Connection[Any], name: str, statement: bytes) -> bool:
    """Whether the statement is known to the session by its name, from now on or before."""
    # Where psycopg prepares statements itself, it drops all of the session now and then.
    if not conf.settings().PREPARE or raw.prepare_threshold is not None:
        return False
    known = _prepared.setdefault(raw, set())
    if name not in known:
        result = raw.pgconn.prepare(name.encode(), statement)
        if result.status != pq.ExecStatus.COMMAND_OK:
            return False  # the statement itself will say why
        known.add(name)
    return True


def _run(
    raw: psycopg.Connection[Any], name: str, statement: bytes, values: list[bytes | None]
) -> pq.abc.PGresult:
    if _is_prepared(raw, name, statement):
        return raw.pgconn.exec_prepared(name.encode(), values)  # type: ignore[arg-type]  # it takes None
    return raw.pgconn.exec_params(statement, values)


def _begin_and_ask(
    raw: psycopg.Connection[Any], name: str, statement: bytes, values: list[bytes | None]
) -> pq.abc.PGresult:
    pgconn = raw.pgconn
    is_prepared = _is_prepared(raw, name, statement)
    results: list[pq.abc.PGresult] = []
    pgconn.enter_pipeline_mode()
    try:
        pgconn.send_query_params(b"BEGIN", None)
        if is_prepared:
            pgconn.send_query_prepared(name.encode(), values)
        else:
            pgconn.send_query_params(statement, values)
        pgconn.pipeline_sync()
        while pgconn.flush():
            pass
        while len(results) < 3:  # of BEGIN, of the statement, of the synchronization
            result = _next_result(pgconn)
            if result is not None:
                results.append(result)
            elif pgconn.status != pq.ConnStatus.OK:
                break
    finally:
        if pgconn.status == pq.ConnStatus.OK:
            pgconn.exit_pipeline_mode()
    if len(results) < 2:
        raise psycopg.OperationalError(pgconn.get_error_message())
    return results[1]


def _next_result(pgconn: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """The next result, waited for without the interpreter's lock.

    ``get_result`` would keep it: where the statement waits for a transaction of another thread of
    this process, that thread could never end it.
    """
    while pgconn.is_busy():
        poll = select.poll()
        poll.register(pgconn.socket, select.POLLIN)
        poll.poll()
        pgconn.consume_input()
    return pgconn.get_result()
