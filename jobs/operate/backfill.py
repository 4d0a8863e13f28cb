"""Values of declared fields for jobs that are older than the declaration, a portion at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import registry
from jobs.engine import finds, sql
from jobs.errors import InvalidOption

PAGE = 2000
"""Jobs of any kind that one portion looks at."""
LAST = UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class Portion:
    """What one step did."""

    looked: int
    """Jobs of any kind."""
    filled: int
    """Jobs that are found by more than before."""
    before: datetime | None
    """From where to go on after an interruption; None behind the oldest job."""


# Without an index by kind the jobs are walked, newest first, along that of the lists.
_PAGE = """
SELECT j.id, j.created_at, j.kind = ANY(%s) FROM jobs_job j
WHERE (j.created_at, j.id) < (%s::timestamptz, %s::uuid)
ORDER BY j.created_at DESC, j.id DESC LIMIT %s
"""
_LOCK = "SELECT id FROM jobs_job WHERE id = ANY (%s) ORDER BY id FOR SHARE"


def backfill(kind: str, *, before: datetime | None = None) -> Iterator[Portion]:
    """The kind's jobs, also those enqueued before ``before`` only, are found by its fields.

    Each portion is a short transaction of its own. What is there already stays, so that it may be
    stopped, begun again and run twice.
    """
    handler = registry.get(kind)
    if not handler.searchable:
        raise InvalidOption("kind", f"{kind!r} declares no searchable fields")
    if before is not None and (not isinstance(before, datetime) or before.utcoffset() is None):
        raise InvalidOption("before", "must be a datetime with a time zone")
    kinds = [handler.kind, *handler.payload.aliases]
    place: tuple[Any, UUID] = (before or "infinity", LAST)
    more = True
    while more:
        page = sql.rows(_PAGE, [kinds, *place, PAGE + 1])
        more, page = len(page) > PAGE, page[:PAGE]
        ids = [job_id for job_id, _, wanted in page if wanted]
        filled = sql.repeating(partial(_fill, handler.kind, ids)) if ids else 0
        if page:
            place = (page[-1][1], page[-1][0])
        # Whoever goes on from there sees the jobs of that moment again, which does no harm.
        yield Portion(len(page), filled, place[0] if more else None)


def _fill(kind: str, ids: list[UUID]) -> int:
    with transaction.atomic(using=sql.alias()):
        # Neither deleted nor given another payload meanwhile; read by a statement of its own,
        # which sees what was committed before the lock.
        locked = [row[0] for row in sql.bound_rows(_LOCK, [ids])]
        return finds.fill(kind, locked)
