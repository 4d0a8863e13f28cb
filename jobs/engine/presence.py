"""Processes that do the platform's own work say who they are, where the database shows it.

Each names its connections, also those that it opens after an outage; nothing is written, and
what is gone is gone from the list.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.signals import connection_created

from jobs.engine import sql

PREFIX = "jobs:"
LONGEST = 63
"""Bytes that PostgreSQL keeps of a name."""


def introduce(role: str, name: str) -> None:
    """From now on this process's connections are those of the role's holder of this name."""
    text = _text(role, name)

    def say(connection: Any, **_: Any) -> None:
        if connection.alias == sql.alias():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('application_name', %s, false)", [text])

    connection_created.connect(say, weak=False, dispatch_uid="jobs.engine.presence")
    if sql.connection().connection is not None:
        say(sql.connection())


def introduce_worker(name: str) -> None:
    """Name the connections that this process opens from now on after its worker.

    By a parameter of the connection, which costs no statement: slots open many.
    """
    sql.connection().settings_dict["OPTIONS"]["application_name"] = _text("worker", name)


def _text(role: str, name: str) -> str:
    return f"{PREFIX}{role}:{name}".encode("ascii", "replace")[:LONGEST].decode()
