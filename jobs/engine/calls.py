"""Calling a database function on a hot path, by libpq and in one round trip.

A cursor costs more than the function that it calls. Where the call is the first statement of a
transaction, BEGIN travels with it.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import pq

from jobs import conf
from jobs.engine import sql


def call(function: str, arguments: Sequence[Any]) -> bytes | None:
    """What the function answers, as text. Arguments are texts, numbers, UUIDs, moments or None.

    With ``JOBS["PREPARE"]`` the call is prepared once per session, which a pooler of transactions
    would not bear.
    """
    conn = sql.connection()
    conn.ensure_connection()
    conn.validate_no_broken_transaction()
    raw = conn.connection
    values = [None if value is None else str(value).encode() for value in arguments]
    with conn.wrap_database_errors:
        result = _ask(raw, function, values)
        if result.status == pq.ExecStatus.TUPLES_OK:
            return result.get_value(0, 0)
        if raw.pgconn.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError(raw.pgconn.get_error_message())
        raise psycopg.errors.error_from_result(result)


@cache
def _statement(function: str, arguments: int) -> bytes:
    holes = ", ".join(f"${n}" for n in range(1, arguments + 1))
    return f"SELECT {function}({holes})".encode()


def _ask(
    raw: psycopg.Connection[Any], function: str, values: list[bytes | None]
) -> pq.abc.PGresult:
    statement = _statement(function, len(values))
    if raw.autocommit or raw.pgconn.transaction_status != pq.TransactionStatus.IDLE:
        return _run(raw, function, statement, values)
    if raw.isolation_level is None and raw.read_only is None and raw.deferrable is None:
        return _begin_and_ask(raw, function, statement, values)
    raw.execute("SELECT 1")  # psycopg knows how to begin such a transaction
    return _run(raw, function, statement, values)


_prepared: WeakKeyDictionary[psycopg.Connection[Any], set[str]] = WeakKeyDictionary()


def _is_prepared(raw: psycopg.Connection[Any], function: str, statement: bytes) -> bool:
    """Whether the statement is known to the session by its name, from now on or before."""
    # Where psycopg prepares statements itself, it drops all of the session now and then.
    if not conf.settings().PREPARE or raw.prepare_threshold is not None:
        return False
    known = _prepared.setdefault(raw, set())
    if function not in known:
        result = raw.pgconn.prepare(_name(function), statement)
        if result.status != pq.ExecStatus.COMMAND_OK:
            return False  # the statement itself will say why
        known.add(function)
    return True


def _run(
    raw: psycopg.Connection[Any], function: str, statement: bytes, values: list[bytes | None]
) -> pq.abc.PGresult:
    if _is_prepared(raw, function, statement):
        return raw.pgconn.exec_prepared(_name(function), values)  # type: ignore[arg-type]  # it takes None
    return raw.pgconn.exec_params(statement, values)


def _name(function: str) -> bytes:
    return f"call_{function}".encode()


def _begin_and_ask(
    raw: psycopg.Connection[Any], function: str, statement: bytes, values: list[bytes | None]
) -> pq.abc.PGresult:
    pgconn = raw.pgconn
    is_prepared = _is_prepared(raw, function, statement)
    results: list[pq.abc.PGresult] = []
    pgconn.enter_pipeline_mode()
    try:
        pgconn.send_query_params(b"BEGIN", None)
        if is_prepared:
            pgconn.send_query_prepared(_name(function), values)
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
