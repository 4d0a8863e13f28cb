"""Deciding about one dead letter: another chance, a new job, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from jobs.engine import sql
from jobs.errors import NotAllowed, UnknownTarget
from jobs.operate import acts, replay, retry
from jobs.payloads import Payload
from jobs.principals import By
from jobs.states import DeadLetterState

_PERMISSION = "resolve_deadletter"


def retry_letter(
    number: int, *, by: By, reason: str = "", attempts: int | None = None, reset: bool = False
) -> UUID:
    """The letter's job has another chance, and the letter is closed; answers the job's id."""
    with _decided("retry", number, by, reason) as (act, job_id):
        retry.carry_out(job_id, by=act.name, reason=reason, attempts=attempts, reset=reset)
        return job_id


def replay_letter(
    number: int,
    *,
    by: By,
    reason: str = "",
    payload: Payload | None = None,
    payload_patch: Mapping[str, Any] | None = None,
    same_lineage: bool = True,
) -> UUID:
    """A new job is made of the letter's, and the letter is closed; answers the new job's id."""
    with _decided("replay", number, by, reason) as (act, job_id):
        new = replay.carry_out(
            job_id,
            by=act.name,
            reason=reason,
            payload=payload,
            payload_patch=payload_patch,
            same_lineage=same_lineage,
        )
        act.note(new=new)
        return new


def discard_letter(number: int, *, by: By, reason: str) -> UUID:
    """Nothing is to be done about the letter's job, which stays failed; answers its id."""
    with _decided("discard", number, by, reason, needs_reason=True) as (act, job_id):
        retry.close_dead_letters([job_id], str(DeadLetterState.DISCARDED), act.name, act.reason)
        return job_id


@contextmanager
def _decided(
    verb: str, number: int, by: By, reason: str, needs_reason: bool = False
) -> Iterator[tuple[acts.Act, UUID]]:
    """The open letter's job, which is locked before the letter, as everywhere."""
    with acts.on(
        f"deadletter.{verb}", kind="deadletter", id=number, permission=_PERMISSION, by=by,
        reason=reason, needs_reason=needs_reason,
    ) as act:  # fmt: skip
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
            raise NotAllowed(verb, job_id, f"decided upon: {state}", [DeadLetterState.OPEN])
        act.note(job=job_id)
        yield act, job_id
