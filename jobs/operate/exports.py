"""What a query finds, as rows for a file: read page by page, and written down who took it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobs.models import Job
from jobs.operate import acts, search
from jobs.operate.query import Query, parse
from jobs.operate.targets import Place
from jobs.principals import By

MOST = 10_000
"""This many jobs an export holds at most."""
PAGE = 200
COLUMNS = (
    "id", "kind", "queue", "state", "tenant", "tags", "priority", "attempt", "failures",
    "max_attempts", "created_at", "run_at", "started_at", "finished_at", "reason", "error",
    "batch_id", "correlation_id",
)  # fmt: skip
"""No payload and no result: those are looked at one by one."""


def export(query: Query | str, *, by: By, reason: str, limit: int = MOST) -> Iterator[list[Any]]:
    """The rows of at most ``limit`` jobs, newest first, in the order of ``COLUMNS``.

    It needs ``run_bulk``, as many rows leave the platform at once. The audit has it before the
    first row is read. Raises as ``search.jobs`` does, before that.
    """
    asked = parse(query) if isinstance(query, str) else query
    with acts.on(
        "job.export", kind="job", id=None, permission="run_bulk", by=by, reason=reason,
        needs_reason=True, place=Place(),
    ) as act:  # fmt: skip
        first = search.jobs(asked, by=by, limit=min(PAGE, limit))
        act.note(query=str(query), limit=limit)
    return _rows(asked, by, first, limit)


def _rows(query: Query, by: By, page: search.Page, limit: int) -> Iterator[list[Any]]:
    left = limit
    while True:
        for job in page.jobs[:left]:
            yield _row(job)
        left -= len(page.jobs)
        if page.next is None or left <= 0:
            return
        page = search.jobs(query, by=by, limit=min(PAGE, left), after=page.next)


def _row(job: Job) -> list[Any]:
    return [getattr(job, name) for name in COLUMNS]
