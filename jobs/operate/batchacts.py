"""What people do with the jobs of a batch: cancel those that have not ended, retry what failed.

A few members are dealt with at once, in one transaction. Of more than ``FEW`` a bulk operation
takes care, however it is asked for, so that no transaction holds all their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from jobs.engine import sql
from jobs.errors import NotAllowed
from jobs.models import Bulk
from jobs.operate import bulk
from jobs.operate.acts import Act
from jobs.operate.bulkscan import scoped
from jobs.operate.cancel import cancel_many
from jobs.operate.parameters import Force
from jobs.operate.permissions import CANCEL_JOB, RETRY_JOB, RUN_BULK
from jobs.operate.retry import carry_out, retry_many
from jobs.operate.targets import BATCH
from jobs.operate.verbs import acting, deny, verb
from jobs.operate.words import checked_reason
from jobs.principals import By, Scope, principal

FEW = 1000
"""This many members at most are acted upon in one transaction."""
_UNFINISHED = ("blocked", "pending", "queued", "running")
_FAILED = ("failed",)


@verb("batch.cancel_rest", on=BATCH, permission=CANCEL_JOB, also=(RUN_BULK,))
def cancel_rest(batch_id: UUID, *, by: By, reason: str = "", force: Force = False) -> int | Bulk:
    """Cancel every job of a batch that has not ended, or ask it to stop.

    Members outside the scope are left alone. Returns how many were concerned; of more than
    ``FEW``, the bulk operation that cancels them, which needs a reason and ``run_bulk``.
    """
    few = _are_few(cancel_rest, batch_id, _UNFINISHED, by)

    def write() -> int | Bulk:
        with acting(cancel_rest, batch_id, by=by, reason=reason) as act:
            act.note(force=force)
            if not few:
                return _in_bulk(act, "cancel", batch_id, _UNFINISHED, force=force)
            ids = _members(batch_id, _UNFINISHED, act.principal.scope)
            act.count = len(cancel_many(ids, by=act.name, reason=act.reason, force=force))
            return act.count

    return sql.repeating(write)


@verb("batch.retry_failed", on=BATCH, permission=RETRY_JOB, also=(RUN_BULK,))
def retry_failed(
    batch_id: UUID,
    *,
    by: By,
    reason: str = "",
    attempts: Annotated[int, Field(ge=1, le=1000, description="allow this many more failures")] = 1,
) -> int | Bulk:
    """Retry every failed job of a batch that can be retried.

    Members outside the scope are left alone, and so are those that were replayed or continue under
    the same key. Returns how many were retried; of more than ``FEW``, the bulk operation that
    retries them, which needs a reason and ``run_bulk``.
    """
    few = _are_few(retry_failed, batch_id, _FAILED, by)
    with acting(retry_failed, batch_id, by=by, reason=reason) as act:
        if not few:
            return _in_bulk(act, "retry", batch_id, _FAILED, attempts=attempts)
        act.count = _retry(batch_id, act, attempts)
        return act.count


def _retry(batch_id: UUID, act: Act, attempts: int) -> int:
    who: dict[str, Any] = {"by": act.name, "reason": act.reason, "attempts": attempts}
    ids = _members(batch_id, _FAILED, act.principal.scope, "AND j.replayed_by IS NULL")
    # Before the first retry locks the batch, behind which a finishing member may wait.
    sql.rows("SELECT 1 FROM jobs_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [ids])
    together = retry_many(ids, **who)
    retried = len(together)
    for job_id in ids:
        if job_id not in together:
            with suppress(NotAllowed):
                carry_out(job_id, **who)
                retried += 1
    return retried


def _are_few(function: Callable[..., Any], batch_id: UUID, states: tuple[str, ...], by: By) -> bool:
    """Whether they can be dealt with at once; raise Denied where neither that nor a bulk can be."""
    who = principal(by)
    if len(_members(batch_id, states, who.scope, limit=FEW + 1)) <= FEW:
        return True
    if not who.may(RUN_BULK):
        raise deny(function, RUN_BULK, by, batch_id)
    return False


def _in_bulk(
    act: Act, action: str, batch_id: UUID, states: tuple[str, ...], **options: Any
) -> Bulk:
    """Begin the bulk operation; members that the caller does not see are none of its jobs."""
    query = f"batch:{batch_id} " + " ".join(f"state:{state}" for state in states)
    reason = checked_reason(act.reason)
    # What is named is one thing, which needs no second look.
    made = bulk.carry_out(action, query=query, who=act.principal, reason=reason, **options)
    act.note(bulk=made.id)
    return made


def _members(
    batch_id: UUID, states: tuple[str, ...], scope: Scope, also: str = "", limit: int | None = None
) -> list[UUID]:
    """Return the ids of the members in these states within the scope."""
    within, more = scoped(scope)
    found = sql.rows(
        "SELECT j.id FROM jobs_job j WHERE batch_id = %s AND state = ANY(%s)"  # noqa: S608
        f"{within} {also} ORDER BY id LIMIT %s",
        [batch_id, list(states), *more, limit],
    )
    return [row[0] for row in found]
