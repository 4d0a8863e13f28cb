"""Changing a job that has not begun: when, where and how often it runs; never what it does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from jobs.clockwork import aware
from jobs.engine import sql, withdrawal
from jobs.engine.drafts import EARLIEST, LATEST, check_priority, check_tags
from jobs.engine.flow import PRIORITY_STEP_MS
from jobs.engine.pushes import after_commit
from jobs.errors import Changed, InvalidOption, NotAllowed, UnknownJob
from jobs.names import name_problem
from jobs.operate import internal
from jobs.operate.parameters import HIDDEN, Priority, QueueName
from jobs.operate.permissions import EDIT_JOB, RETRY_JOB
from jobs.operate.targets import JOB
from jobs.operate.verbs import Many, acting, verb
from jobs.principals import By
from jobs.states import JobState

EDITABLE = (JobState.BLOCKED, JobState.PENDING, JobState.QUEUED)
FIELDS = ("priority", "queue", "run_at", "max_attempts", "tags")
_COLUMNS = "kind, state, priority, queue, run_at, max_attempts, tags, attempt, failures, flow"


@verb(
    "job.edit",
    on=JOB,
    permission=EDIT_JOB,
    many=Many(frozenset({JobState.BLOCKED, JobState.PENDING}), frozenset({"priority", "queue"})),
)
def edit(
    job_id: UUID,
    *,
    by: By,
    reason: str = "",
    version: Annotated[str | None, HIDDEN] = None,
    priority: Priority = None,
    queue: QueueName = None,
    run_at: datetime | None = None,
    max_attempts: Annotated[int | None, Field(ge=1, le=1000)] = None,
    tags: Annotated[Sequence[str] | None, Field(max_length=20)] = None,
) -> str:
    """Change a job that has not begun.

    Returns its new version. With ``version`` nothing happens where the job is no longer as it was
    then: raises Changed. Raises NotAllowed where it has begun or ended. A queued job waits to be
    dispatched again.
    """
    given: dict[str, Any] = {"priority": priority, "queue": queue, "run_at": run_at}
    given |= {"max_attempts": max_attempts, "tags": None if tags is None else list(tags)}
    changes = {name: value for name, value in given.items() if value is not None}

    def write() -> str:
        with acting(edit, job_id, by=by, reason=reason) as act:
            _check(changes)
            if not act.principal.scope.covers(None, changes.get("queue")):
                raise InvalidOption("queue", f"there is no queue {queue!r}")
            job = _locked(job_id)
            internal.check_kind(job["kind"], by)
            if version is not None and version != _version(job):
                raise Changed("job", job_id)
            if job["state"] not in EDITABLE:
                raise NotAllowed("edit", job_id, job["state"], EDITABLE)
            if job["state"] == JobState.QUEUED:  # so that nothing begins it as it was
                withdrawal.withdraw_one(job_id, act.name, "edited")
            _apply(job_id, changes)
            act.changed({name: job[name] for name in changes}, changes)
            after_commit(None)
            return _version(_locked(job_id))

    return sql.repeating(write)


def version(job_id: UUID) -> str:
    """Return a version that changes whenever the job does; raises UnknownJob."""
    return _version(_read(job_id, ""))


_RUN_NOW = """
UPDATE jobs_job SET run_at = least(run_at, jobs_clock()), wait = CASE wait WHEN 1 THEN 0 ELSE wait
  END, rank = (extract(epoch FROM least(run_at, jobs_clock())) * 1000)::bigint - priority * %s
WHERE id = %s
"""


@verb(
    "job.run_now",
    on=JOB,
    permission=RETRY_JOB,
    many=Many(frozenset({JobState.PENDING}), runs=True),
)
def run_now(job_id: UUID, *, by: By, reason: str = "") -> None:
    """Run a job now that is waiting for its time.

    Pauses, limits and its place in line stay in force. Raises NotAllowed in any other state.
    """
    with acting(run_now, job_id, by=by, reason=reason) as act:
        job = _locked(job_id)
        if job["state"] != JobState.PENDING:
            raise NotAllowed("run", job_id, job["state"], [JobState.PENDING])
        sql.run(_RUN_NOW, [PRIORITY_STEP_MS, job_id])
        act.changed({"run_at": job["run_at"]}, {"run_at": _locked(job_id)["run_at"]})
        after_commit(None)


def _check(changes: dict[str, Any]) -> None:
    if not changes:
        raise InvalidOption("changes", f"are none; give some of {', '.join(FIELDS)}")
    if "priority" in changes:
        check_priority(changes["priority"])
    if "queue" in changes and (problem := name_problem(changes["queue"])):
        raise InvalidOption("queue", problem)
    if "run_at" in changes and not EARLIEST <= aware("run_at", changes["run_at"]) <= LATEST:
        raise InvalidOption("run_at", f"must lie between {EARLIEST.year} and {LATEST.year}")
    if "max_attempts" in changes:
        most = changes["max_attempts"]
        if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= 1000:
            raise InvalidOption(
                "max_attempts", f"must be a whole number from 1 to 1000, got {most!r}"
            )
    if "tags" in changes:
        check_tags(changes["tags"])


_APPLY = """
UPDATE jobs_job SET priority = coalesce(%s, priority), queue = coalesce(%s, queue),
  max_attempts = coalesce(%s, max_attempts), tags = coalesce(%s::text[], tags),
  run_at = coalesce(%s::timestamptz, run_at),
  rank = (extract(epoch FROM coalesce(%s::timestamptz, run_at)) * 1000)::bigint
    - coalesce(%s, priority) * %s,
  wait = CASE WHEN %s::timestamptz IS NULL THEN wait
    WHEN %s::timestamptz > jobs_clock() THEN 1 WHEN wait = 1 THEN 0 ELSE wait END
WHERE id = %s
"""


def _apply(job_id: UUID, changes: dict[str, Any]) -> None:
    at, priority = changes.get("run_at"), changes.get("priority")
    sql.run(
        _APPLY,
        [
            priority,
            changes.get("queue"),
            changes.get("max_attempts"),
            changes.get("tags"),
            at,
            at,
            priority,
            PRIORITY_STEP_MS,
            at,
            at,
            job_id,
        ],
    )


def _locked(job_id: UUID) -> dict[str, Any]:
    return _read(job_id, "FOR NO KEY UPDATE")


def _read(job_id: UUID, lock: str) -> dict[str, Any]:
    found = sql.rows(f"SELECT {_COLUMNS} FROM jobs_job WHERE id = %s {lock}", [job_id])  # noqa: S608
    if not found:
        raise UnknownJob(job_id)
    return dict(zip(_COLUMNS.split(", "), found[0], strict=True))


def _version(job: dict[str, Any]) -> str:
    text = json.dumps({name: job[name] for name in job if name != "flow"}, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
