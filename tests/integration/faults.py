"""Faults of PostgreSQL that last for a while and leave it running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from typing import Any

import psycopg

from tests.integration.fleet import Fleet
from tests.wait import wait_until


def _connect(fleet: Fleet) -> psycopg.Connection[Any]:
    return psycopg.connect(fleet.postgres.url, autocommit=True, application_name="fault")


@contextmanager
def read_only(fleet: Fleet) -> Iterator[None]:
    """Nobody can write, as on a standby just before it is promoted."""
    begun = _alter(fleet, "SET default_transaction_read_only = on")
    try:
        fleet.terminate_backends()
        yield
    finally:
        wait_until(lambda: _writable_again(fleet, begun), message="the database can be written to")


# A pooler keeps what others than the fleet have opened meanwhile.
_SINCE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
  AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND backend_start >= %s
"""


def _writable_again(fleet: Fleet, begun: datetime) -> bool:
    """Reset what sessions begin with, and end those that have begun with it."""
    try:
        _alter(fleet, "RESET default_transaction_read_only")
        with _direct(fleet) as connection:
            connection.execute(_SINCE, [begun])
        fleet.terminate_backends()
        fleet.forget_connection()
    except psycopg.OperationalError:
        return False  # the server is down, too
    return True


def _alter(fleet: Fleet, change: str) -> datetime:
    """Change what sessions of the database begin with; return the moment before."""
    with _direct(fleet) as connection:
        [(moment,)] = connection.execute("SELECT clock_timestamp()").fetchall()
        connection.execute(f'ALTER DATABASE "{connection.info.dbname}" {change}')
    assert isinstance(moment, datetime)
    return moment


def _direct(fleet: Fleet) -> psycopg.Connection[Any]:
    """Return a connection that can write, past a pooler."""
    url = getattr(fleet.postgres, "superuser_url", fleet.postgres.url)
    return psycopg.connect(url, autocommit=True, options="-c default_transaction_read_only=off")


@contextmanager
def locked(fleet: Fleet, table: str = "jobs_job") -> Iterator[None]:
    """The table can be read and not written, as while an index is made."""
    with _connect(fleet) as mine, mine.transaction(force_rollback=True):
        mine.execute("SET LOCAL lock_timeout = '2s'")  # somebody frozen may hold it
        mine.execute(f"LOCK TABLE {table} IN SHARE MODE")
        yield


@contextmanager
def used_up(fleet: Fleet, *, cut: bool = True) -> Iterator[None]:
    """Strangers hold every connection, also (where ``cut``) those that the fleet had."""
    with ExitStack() as stack:
        with suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(_connect(fleet))
        for _ in range(3 if cut else 0):
            with suppress(psycopg.OperationalError):
                for _ in range(fleet.terminate_backends()):
                    stack.enter_context(_connect(fleet))
        yield
