"""Acting on a whole batch: at once where few members are concerned, in bulk where many are."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobs.engine import sql
from jobs.errors import Denied
from jobs.models import Bulk
from jobs.operate import acts, batches, bulk
from jobs.principals import By, principal

FEW = 1000
"""So many members at most are acted upon in one transaction."""
_UNFINISHED = ("blocked", "pending", "queued", "running")


def cancel_rest(batch_id: UUID, *, by: By, reason: str = "", force: bool = False) -> int | Bulk:
    """As ``batches.cancel_rest``, or the bulk operation that does it where there are many."""
    if _are_few(batch_id, _UNFINISHED):
        return batches.cancel_rest(batch_id, by=by, reason=reason, force=force)
    return _in_bulk("cancel_rest", "cancel", batch_id, _UNFINISHED, by, reason, force=force)


def retry_failed(batch_id: UUID, *, by: By, reason: str = "", attempts: int = 1) -> int | Bulk:
    """As ``batches.retry_failed``, or the bulk operation that does it where there are many."""
    if _are_few(batch_id, ("failed",)):
        return batches.retry_failed(batch_id, by=by, reason=reason, attempts=attempts)
    return _in_bulk("retry_failed", "retry", batch_id, ("failed",), by, reason, attempts=attempts)


def _are_few(batch_id: UUID, states: tuple[str, ...]) -> bool:
    found = sql.rows(
        "SELECT 1 FROM jobs_job WHERE batch_id = %s AND state = ANY(%s) LIMIT %s",
        [batch_id, list(states), FEW + 1],
    )
    return len(found) <= FEW


def _in_bulk(
    verb: str, action: str, batch_id: UUID, states: tuple[str, ...], by: By, reason: str,
    **options: Any,
) -> Bulk:  # fmt: skip
    """Members of a batch that the caller does not see are none of the operation's."""
    if not principal(by).may("run_bulk"):
        raise acts.deny(Denied("run_bulk"), by, f"batch.{verb}", kind="batch", id=batch_id)
    query = f"batch:{batch_id} " + " ".join(f"state:{state}" for state in states)
    # What is named is one thing, which needs no second look.
    token = bulk.preview(action, query=query, by=by, **options).token
    return bulk.start(action, query=query, by=by, reason=reason, token=token, **options)
