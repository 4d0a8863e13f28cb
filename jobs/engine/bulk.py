"""Bulk: thousands of rows in one COPY."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from jobs.engine import sql
from jobs.engine.drafts import Entry
from jobs.engine.flow import PRIORITY_STEP_MS, lane

_COLUMNS = (
    "id, kind, queue, state, priority, payload, payload_version, tenant, tags, lane, created_at, "
    "run_at, rank, wait, expires_at, max_attempts, timeout, lease, correlation_id"
)
_FLOW_COLUMNS = (
    ", flow, unique_key, exclusive_key, limit_key, preempts, preemptible, batch_id, parent_id"
)


def copy(entries: list[Entry], now: datetime) -> None:
    """Every entry is a pending row, counted from ``now``; fails as a whole."""
    plain = not any(e.flow or e.preempts or e.preemptible or e.parent for e in entries)
    _copy_into("jobs_job", entries, now, plain)


_NEW = f"""
INSERT INTO jobs_job ({_COLUMNS}{_FLOW_COLUMNS}) SELECT {_COLUMNS}{_FLOW_COLUMNS} FROM jobs_stage
ORDER BY unique_key, kind, tenant, id ON CONFLICT DO NOTHING RETURNING id
"""  # noqa: S608 - constant columns


def copy_new(entries: list[Entry], now: datetime) -> set[UUID]:
    """Those of the entries whose id and unfinished key were free are pending rows.

    COPY knows no ON CONFLICT: the rows go through a table of this transaction. Keys are taken in
    one order, so that two bulks cannot wait for each other.
    """
    sql.run(
        "CREATE TEMP TABLE IF NOT EXISTS jobs_stage (LIKE jobs_job INCLUDING DEFAULTS) "
        "ON COMMIT DROP"
    )
    _copy_into("jobs_stage", entries, now, plain=False)
    inserted = {row[0] for row in sql.rows(_NEW)}
    sql.run("TRUNCATE jobs_stage")
    return inserted


def _copy_into(table: str, entries: list[Entry], now: datetime, plain: bool) -> None:
    conn = sql.connection()
    columns = _COLUMNS if plain else _COLUMNS + _FLOW_COLUMNS
    line = _line(now)
    with (
        conn.wrap_database_errors,
        conn.connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copying,
    ):
        for start in range(0, len(entries), 500):
            part = entries[start : start + 500]
            if plain:
                copying.write("".join([line(e) + "\n" for e in part]))
            else:
                copying.write("".join([line(e) + _flow_part(e) + "\n" for e in part]))


def array(items: list[str]) -> str:
    """The texts as PostgreSQL writes an array."""
    quoted = (item.replace("\\", "\\\\").replace('"', '\\"') for item in items)
    return "{" + ",".join(f'"{item}"' for item in quoted) + "}"


@functools.lru_cache(maxsize=1024)
def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _line(now: datetime) -> Callable[[Entry], str]:
    """Makes the COPY line of an entry; what thousands of lines share is made once."""
    created = now.isoformat()
    now_ms = int(now.timestamp() * 1000)

    def line(e: Entry) -> str:
        at, at_ms, wait = created, now_ms, 0
        if not e.due_now:
            moment = e.run_at or now + timedelta(seconds=e.delay)
            at, at_ms, wait = moment.isoformat(), int(moment.timestamp() * 1000), moment > now
        expires = "\\N"
        if e.expires_at is not None:
            expires = e.expires_at.isoformat()
        elif e.expires_in is not None:
            expires = (now + timedelta(seconds=e.expires_in)).isoformat()
        # JSON text has no raw control characters: only backslashes need escaping.
        text = e.text.replace("\\", "\\\\") if "\\" in e.text else e.text
        tenant = _escaped(e.tenant)
        tags = _escaped(array(e.tags)) if e.tags else "{}"
        return (
            f"{e.id}\t{e.kind}\t{e.queue}\tpending\t{e.priority}\t{text}\t{e.version}\t{tenant}\t"
            f"{tags}\t{lane(tenant, e.kind)}\t{created}\t{at}\t"
            f"{at_ms - e.priority * PRIORITY_STEP_MS}\t{int(wait)}\t{expires}\t{e.max_attempts}\t"
            f"{e.timeout}\t{e.lease}\t{_escaped(e.correlation_id)}"
        )

    return line


def _flow_part(e: Entry) -> str:
    def text(value: object) -> str:
        return "\\N" if value is None else _escaped(str(value))

    return (
        f"\t{e.flow}\t{text(e.unique_key)}\t{text(e.exclusive)}\t{text(e.limit_key)}\t{e.preempts}\t{e.preemptible}\t"
        f"{text(e.batch)}\t{text(e.parent)}"
    )
