"""The values by which jobs are found: written in the transaction that writes the jobs.

Tags and correlation ids are written by a trigger; here are the declared fields of payloads, for
kinds that declare any.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from jobs import registry
from jobs.engine import sql
from jobs.engine.drafts import Entry
from jobs.searchable import VALUE_LIMIT

PREFIX = "payload."

_WRITE = f"""
INSERT INTO jobs_search (path, value, job_id, created_at)
SELECT '{PREFIX}' || t.path, left(j.payload #>> string_to_array(t.path, '.'), {VALUE_LIMIT}), j.id,
  j.created_at
FROM jobs_job j JOIN unnest(%s::text[], %s::text[]) AS t(kind, path) ON t.kind = j.kind
WHERE j.id = ANY(%s)
  AND jsonb_typeof(j.payload #> string_to_array(t.path, '.')) IN ('string', 'number', 'boolean')
"""  # noqa: S608 - constants


def write(entries: Iterable[Entry]) -> None:
    """The entries that are rows by now are found by their declared fields."""
    found = [e for e in entries if e.searchable]
    if found:
        _write({e.kind for e in found}, [e.id for e in found])


def rewrite(entry: Entry, job_id: UUID) -> None:
    """The job took the entry's payload over, and is found by its values only."""
    if entry.searchable:
        sql.run(
            "DELETE FROM jobs_search WHERE job_id = %s AND starts_with(path, %s)",
            [job_id, PREFIX],
        )
        _write({entry.kind}, [job_id])


def _write(kinds: set[str], ids: list[UUID]) -> None:
    pairs = [(kind, path) for kind in sorted(kinds) for path in registry.get(kind).searchable]
    sql.bound_rows(_WRITE, [[kind for kind, _ in pairs], [path for _, path in pairs], ids])


_MISSING = f"""
  AND NOT EXISTS (SELECT 1 FROM jobs_search s WHERE s.job_id = j.id
    AND s.path = '{PREFIX}' || t.path)
RETURNING job_id
"""  # noqa: S608 - constants
# Of an old name of the kind, too.
_FILL = _WRITE.replace("t.kind = j.kind", "true") + _MISSING


def fill(kind: str, ids: list[UUID]) -> int:
    """The jobs, of this kind or an old name of it, are found by every declared field.

    Answers how many were not before.
    """
    paths = list(registry.get(kind).searchable)
    return len(set(sql.bound_rows(_FILL, [[kind] * len(paths), paths, ids])))
