"""Retention of what people leave behind: bulk operations with their items, and causes of failures.

Everything goes in portions of one short transaction each, as ``jobs.engine.retention`` asks for.
"""

# Every piece of SQL here is put together from constants of this file.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction

from jobs.engine import sql

Rows = Mapping[str, int]
_ENDED = "state IN ('aborted', 'done', 'stopped') AND finished_at < %s"


def bulks(keep: timedelta, dry_run: bool, chunk: int) -> Iterator[Rows]:
    """Bulk operations that ended long enough ago are gone, their items first."""
    before = _moment(keep)
    counts = f"""SELECT count(*), (SELECT count(*) FROM jobs_bulkitem WHERE bulk_id IN
      (SELECT id FROM jobs_bulk WHERE {_ENDED})) FROM jobs_bulk WHERE {_ENDED}"""
    if dry_run:
        [(rows, items)] = sql.rows(counts, [before, before])
        yield {"bulks": rows, "bulk items": items}
        return
    # An array, because a plan may run the subquery of an IN again for every row, past its LIMIT.
    items = f"""DELETE FROM jobs_bulkitem WHERE id = ANY (ARRAY(SELECT i.id FROM jobs_bulkitem i
      WHERE i.bulk_id = (SELECT id FROM jobs_bulk WHERE {_ENDED} ORDER BY created_at, id LIMIT 1)
      ORDER BY i.id LIMIT %s FOR UPDATE SKIP LOCKED))"""
    whole = f"""DELETE FROM jobs_bulk WHERE id = (SELECT id FROM jobs_bulk b WHERE {_ENDED}
      ORDER BY created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
      AND NOT EXISTS (SELECT 1 FROM jobs_bulkitem i WHERE i.bulk_id = jobs_bulk.id)"""
    while True:
        gone = _run(items, [before, chunk])
        yield {"bulk items": gone}
        if gone:
            continue
        gone = _run(whole, [before])
        yield {"bulks": gone}
        if not gone:
            return


def causes(keep: timedelta, dry_run: bool, chunk: int) -> Iterator[Rows]:
    """Causes of which nothing died for long enough, and no dead letter is open, are gone."""
    before = _moment(keep)
    old = """FROM jobs_causeseen s WHERE s.last_at < %s AND NOT EXISTS (SELECT 1
      FROM jobs_deadletter d WHERE d.fingerprint = s.fingerprint AND d.state = 'open')"""
    if dry_run:
        [(rows,)] = sql.rows(f"SELECT count(*) {old}", [before])
        yield {"causes seen": rows}
        return
    seen = f"""DELETE FROM jobs_causeseen WHERE id = ANY (ARRAY(SELECT s.id {old} ORDER BY s.id
      LIMIT %s FOR UPDATE OF s SKIP LOCKED)) RETURNING fingerprint"""
    while True:
        marks = sql.repeating(lambda: sql.rows(seen, [before, chunk]))
        gone = sorted({mark for (mark,) in marks})
        yield {"causes seen": len(marks), "causes": _forget(gone) if gone else 0}
        if len(marks) < chunk:
            return


_FORGET = """
DELETE FROM jobs_cause k WHERE k.fingerprint IN (SELECT fingerprint FROM jobs_cause
  WHERE fingerprint = ANY(%s) ORDER BY fingerprint FOR UPDATE SKIP LOCKED)
  AND NOT EXISTS (SELECT 1 FROM jobs_causeseen s WHERE s.fingerprint = k.fingerprint)
"""
# Whoever failed of it at that very moment found the cause still there, and made none.
_BACK = """
INSERT INTO jobs_cause (fingerprint, first_at) SELECT fingerprint, min(first_at)
FROM jobs_causeseen WHERE fingerprint = ANY(%s) GROUP BY 1 ORDER BY 1 ON CONFLICT DO NOTHING
"""


def _forget(marks: list[str]) -> int:
    gone = _run(_FORGET, [marks])
    _run(_BACK, [marks])
    return gone


def _moment(keep: timedelta) -> Any:
    return sql.rows("SELECT jobs_clock() - %s", [keep])[0][0]


def _run(statement: str, parameters: list[Any]) -> int:
    def write() -> int:
        with transaction.atomic(using=sql.alias()):
            return sql.run(statement, parameters)

    return sql.repeating(write)
