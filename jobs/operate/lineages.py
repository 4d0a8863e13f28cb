"""Lineages: a job and its replays, of which at most one member is unfinished."""

from __future__ import annotations

from uuid import UUID

from jobs.engine import sql

# The first member's row may be deleted while the line goes on, so that no row can be the lock.
_SEED = 0x6C696E65
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))"


def unfinished(lineage: UUID) -> UUID | None:
    """The member that has not ended, if any; nobody else begins one before the caller commits."""
    sql.rows(_LOCK, [f"jobs:{lineage}", _SEED])
    found = sql.rows(
        "SELECT id FROM jobs_job WHERE (lineage = %s OR id = %s) "
        "AND state IN ('blocked', 'pending', 'queued', 'running') LIMIT 1",
        [lineage, lineage],
    )
    return found[0][0] if found else None
