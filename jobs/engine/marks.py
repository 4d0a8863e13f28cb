"""The mark of the database of the jobs, by which its keys in Redis differ from all others.

Two projects, or staging and production, may share a Redis database without reading each other's
lists. Nothing is stored: the mark follows from the identity of the server, the database and the
schema. It survives a failover to a replica, and differs in a dump that was restored elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from jobs.engine import sql

REFRESH_INTERVAL = 60.0
"""Seconds between two looks whether the database has moved to another server."""
Place = tuple[str, ...]

_known: dict[Place, str] = {}

# A role may have been denied the function; the database and the schema are told apart even then.
_MAY_ASK = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
_SERVER = "SELECT system_identifier FROM pg_control_system()"
_PLACE = """
SELECT d.oid, c.relnamespace FROM pg_database d, pg_class c
WHERE d.datname = current_database() AND c.oid = 'jobs_job'::regclass
"""


def mark() -> str:
    """Return the mark; it is asked for once per process, on this thread's connection."""
    return _known.get(_place()) or refresh()


def refresh() -> str:
    """Ask for the mark again, and return it."""
    found = _known[_place()] = ask(sql.rows)
    return found


def ask(rows: Callable[[str], list[sql.Row]]) -> str:
    """Return the mark of the database whose rows these are."""
    [(may_ask,)] = rows(_MAY_ASK)
    server = rows(_SERVER)[0] if may_ask else (0,)
    text = "/".join(map(str, (*server, *rows(_PLACE)[0])))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _place() -> Place:
    described = sql.connection().settings_dict
    return tuple(str(described.get(name, "")) for name in ("HOST", "PORT", "NAME"))
