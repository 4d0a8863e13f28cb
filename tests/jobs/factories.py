"""Jobs in every state, made along legal moves, and everything that holds or ends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection

import jobs
from jobs.engine import claims, intake, leases
from jobs.engine.claims import Claim, Ended, Success
from jobs.ids import uuid7
from jobs.outcomes import Ending, Fault, decide
from jobs.registry import find
from jobs.states import JobState
from tests.specimens.handlers import Noop

WORKER = "test-worker"

SHAPES = {
    "blocked": "owner = NULL, queued_at = NULL, finished_at = NULL, reason = ''",
    "pending": "owner = NULL, queued_at = NULL, finished_at = NULL, reason = ''",
    "queued": "owner = NULL, queued_at = jobs_clock(), finished_at = NULL, reason = ''",
    "running": "owner = gen_random_uuid(), token = gen_random_uuid(), attempt = attempt + 1, "
    "started_at = jobs_clock(), finished_at = NULL",
    "succeeded": "owner = NULL, finished_at = jobs_clock(), reason = ''",
    "failed": "owner = NULL, finished_at = jobs_clock(), reason = 'exhausted'",
    "cancelled": "owner = NULL, finished_at = jobs_clock()",
    "expired": "owner = NULL, finished_at = jobs_clock()",
}
"""The columns that fit each state."""

_WAYS: dict[str, tuple[str, ...]] = {
    "blocked": (),
    "pending": (),
    "queued": ("queued",),
    "running": ("queued", "running"),
    "succeeded": ("queued", "running", "succeeded"),
    "failed": ("queued", "running", "failed"),
    "cancelled": ("cancelled",),
    "expired": ("expired",),
}


def sql(statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """What the statement answers, run as somebody at a database prompt would run it."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def somebody_waits() -> bool:
    """Whether a session waits for another's lock."""
    return bool(sql("SELECT 1 FROM pg_locks WHERE NOT granted"))


def move(job_id: UUID, state: str, also: str = "") -> None:
    """The job is in the state, by a plain UPDATE that fits its columns to it."""
    columns = SHAPES[state] + also
    sql(f"UPDATE jobs_job SET state = %s, {columns} WHERE id = %s", [state, job_id])  # noqa: S608


def a_job(state: str = "pending", payload: jobs.Payload | None = None, **options: Any) -> UUID:
    """A job in the state, its whole way there in its history."""
    job_id = intake.enqueue(payload or Noop(), **options).id
    if state == "blocked":
        job_id = born_blocked(job_id)
    for step in _WAYS[state]:
        move(job_id, step)
    return job_id


def born_blocked(like: UUID) -> UUID:
    """A blocked job that otherwise is like the given one."""
    job = row(like)
    job.pk, job.state, job.open_parents = uuid7(), "blocked", 1
    job.save(force_insert=True)
    return UUID(str(job.pk))


def an_executor(queue: str = "default", slots: int = 1) -> UUID:
    """A living executor of the queue."""
    owner = uuid7()
    leases.open_lease(owner, WORKER, [queue], slots)
    return owner


def a_claim(
    payload: jobs.Payload | None = None, owner: UUID | None = None, **options: Any
) -> Claim:
    """A job that runs for an executor."""
    return claim_again(a_job("queued", payload, **options), owner)


def claim_again(job_id: UUID, owner: UUID | None = None) -> Claim:
    """The claim of a job that is pending or queued."""
    job = row(job_id)
    if job.state == "pending":
        move(job_id, "queued", ", run_at = jobs_clock()")
    [claim] = claims.claim(job.queue, [job_id], owner or an_executor(job.queue), WORKER)
    return claim


def row(job_id: UUID) -> jobs.Job:
    """The job as it is now."""
    return jobs.Job.objects.get(pk=job_id)


def state(job_id: UUID) -> str:
    """The job's state now."""
    return row(job_id).state


def succeed(*claimed: Claim, result: str = "null") -> set[UUID]:
    """The jobs whose success was accepted."""
    return claims.settle_successes([Success(claim, result) for claim in claimed], WORKER)


def ended(claim: Claim, ending: Ending = "failed", **options: Any) -> Ended:
    """How the attempt ended, as the runner would say it."""
    fault = options.pop("fault", Fault("ValueError", "as told", 'File "x.py", line 3, in f'))
    decided = decide(ending, claim.counters, find(claim.kind), **options)
    return Ended(claim.id, claim.token, claim.kind, decided, fault)


def settle(*endings: Ended) -> dict[UUID, JobState]:
    """The state that each job moved to."""
    return claims.settle_endings(endings, WORKER)
