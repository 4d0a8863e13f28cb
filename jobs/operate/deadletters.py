"""Deciding about one dead letter: another chance, a new job, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from jobs.engine import sql
from jobs.errors import NotAllowed, UnknownTarget
from jobs.operate import internal, replay, retry
from jobs.operate.acts import Act
from jobs.operate.parameters import Attempts, Content, Lineage, Patch, Reset
from jobs.operate.permissions import RESOLVE_DEADLETTER
from jobs.operate.targets import DEADLETTER
from jobs.operate.verbs import Many, acting, of, verb
from jobs.principals import By
from jobs.states import DeadLetterState, JobState

_DEAD = frozenset({JobState.FAILED})


@verb(
    "deadletter.retry",
    on=DEADLETTER,
    permission=RESOLVE_DEADLETTER,
    many=Many(_DEAD, frozenset({"attempts", "reset"}), runs=True),
)
def retry_letter(
    number: int, *, by: By, reason: str = "", attempts: Attempts = None, reset: Reset = False
) -> UUID:
    """Run the failed job of a dead letter again, and close the letter.

    Returns the job's id.
    """
    with _decided(retry_letter, number, by, reason) as (act, job_id):
        retry.carry_out(job_id, by=act.name, reason=act.reason, attempts=attempts, reset=reset)
        return job_id


@verb(
    "deadletter.replay",
    on=DEADLETTER,
    permission=RESOLVE_DEADLETTER,
    many=Many(_DEAD, runs=True),
)
def replay_letter(
    number: int,
    *,
    by: By,
    reason: str = "",
    payload: Content = None,
    payload_patch: Patch = None,
    same_lineage: Lineage = True,
) -> UUID:
    """Make a new job from that of a dead letter, and close the letter.

    Returns the new job's id.
    """
    with _decided(replay_letter, number, by, reason) as (act, job_id):
        internal.check_replay(job_id, by, payload, payload_patch)
        new = replay.carry_out(
            job_id,
            by=act.name,
            reason=act.reason,
            payload=payload,
            payload_patch=payload_patch,
            same_lineage=same_lineage,
        )
        act.note(new=new)
        return new


@verb(
    "deadletter.discard",
    on=DEADLETTER,
    permission=RESOLVE_DEADLETTER,
    many=Many(frozenset(JobState)),
)
def discard_letter(number: int, *, by: By, reason: str) -> UUID:
    """Close a dead letter; its job stays failed.

    Returns the job's id.
    """
    with _decided(discard_letter, number, by, reason) as (act, job_id):
        retry.close_dead_letters([job_id], str(DeadLetterState.DISCARDED), act.name, act.reason)
        return job_id


@contextmanager
def _decided(
    function: Callable[..., Any], number: int, by: By, reason: str
) -> Iterator[tuple[Act, UUID]]:
    """Lock the open letter's job before the letter, as everywhere, and open the act."""
    with acting(function, number, by=by, reason=reason) as act:
        sql.rows(
            "SELECT 1 FROM jobs_job WHERE id = (SELECT job_id FROM jobs_deadletter WHERE id = %s) "
            "FOR NO KEY UPDATE",
            [number],
        )
        found = sql.rows(
            "SELECT job_id, state FROM jobs_deadletter WHERE id = %s FOR NO KEY UPDATE", [number]
        )
        if not found:
            raise UnknownTarget("deadletter", number)
        [(job_id, state)] = found
        if state != DeadLetterState.OPEN:
            raise NotAllowed(
                of(function).action, job_id, f"decided upon: {state}", [DeadLetterState.OPEN]
            )
        act.note(job=job_id)
        yield act, job_id
