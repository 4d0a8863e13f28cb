"""Schemas of jobs, batches and what belongs to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Field, Schema

from jobs.api.inputs import In

State = Literal[
    "blocked", "pending", "queued", "running", "succeeded", "failed", "cancelled", "expired"
]
Text = Field("", max_length=500)


class AttemptOut(Schema):
    """An attempt that did not succeed."""

    number: int
    outcome: str
    error_class: str
    message: str
    worker: str
    started_at: datetime | None
    ended_at: datetime


class AttemptDetailOut(AttemptOut):
    """An attempt with its traceback and the last lines of its log."""

    traceback: str
    lines: str


class MoveOut(Schema):
    """One move of a row from state to state."""

    at: datetime
    source: str | None
    target: str
    by: str | None
    reason: str | None


class JobOut(Schema):
    """A job; what is only included on demand is null."""

    id: UUID
    kind: str
    queue: str
    state: State
    priority: int
    tenant: str
    tags: list[str]
    created_at: datetime
    run_at: datetime
    expires_at: datetime | None
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    failures: int
    max_attempts: int
    timeout_ms: int
    reason: str
    error: str
    unique_key: str | None
    exclusive_key: str | None
    correlation_id: str
    batch_id: UUID | None
    parent_id: UUID | None
    replay_of: UUID | None
    replayed_by: UUID | None
    schedule_id: int | None
    cancel_requested_at: datetime | None
    payload: Any = None
    progress: Any = None
    attempts: list[AttemptOut] | None = None
    history: list[MoveOut] | None = None


class UniqueIn(In):
    """What counts as the same job, and for how long: while unfinished, ever, or this many ms."""

    key: str = Field(min_length=1, max_length=200)
    for_: Literal["unfinished", "ever"] = Field("unfinished", alias="for")
    within_ms: int | None = Field(None, ge=1, le=366 * 86_400_000)
    on_conflict: Literal["return"] = "return"


class JobIn(In):
    """A job to be enqueued."""

    kind: str = Field(min_length=1, max_length=120)
    payload: dict[str, Any] = Field(default_factory=dict)
    id: UUID | None = None
    queue: str | None = Field(None, max_length=120)
    priority: int = Field(0, ge=-100, le=100)
    run_at: datetime | None = None
    delay_ms: int | None = Field(None, ge=0, le=3660 * 86_400_000)
    expires_at: datetime | None = None
    max_attempts: int | None = Field(None, ge=1, le=1000)
    tenant: str | None = Field(None, max_length=120)
    tags: list[str] = Field(default_factory=list, max_length=20)
    correlation_id: str = Field("", max_length=120)
    unique: UniqueIn | None = None
    exclusive: str = Field("", max_length=120)
    limit_key: str = Field("", max_length=120)
    batch: UUID | None = None
    after: list[UUID] = Field(default_factory=list, max_length=1000)
    on_parent_failure: Literal["cancel", "wait", "run"] = "cancel"


class EnqueuedOut(Schema):
    """What became of an enqueue."""

    id: UUID
    kind: str
    queue: str
    deduplicated: bool
    gone: bool
    """Whether the earlier job, for which this one is a duplicate, has been deleted since."""


class ManyIn(In):
    """Jobs to be enqueued together: all or none."""

    jobs: list[JobIn] = Field(min_length=1, max_length=1000)


class ManyOut(Schema):
    """The ids of the jobs, in their order; where a unique key is taken, of the job that has it."""

    ids: list[UUID]


class ReplayedOut(Schema):
    """The new job."""

    id: UUID


class CancelledOut(Schema):
    """The state, and whether the job still has to obey."""

    id: UUID
    state: State
    requested: bool


class ReasonOut(Schema):
    """One thing that keeps a job from running."""

    code: str
    text: str
    until: datetime | None
    ids: list[str]


class ExplanationOut(Schema):
    """Where a job is and why."""

    job_id: UUID
    state: State | None
    reasons: list[ReasonOut]


class ResultOut(Schema):
    """What the handler returned."""

    id: UUID
    state: State
    result: Any = None


class BatchOut(Schema):
    """A batch; null are numbers of a batch that has members in queues that you do not see."""

    id: UUID
    name: str
    note: str
    tenant: str
    state: Literal["open", "sealed", "done"]
    total: int | None
    succeeded: int | None
    failed: int | None
    cancelled: int | None
    expired: int | None
    generation: int
    created_at: datetime
    sealed_at: datetime | None
    finished_at: datetime | None


class BatchProgressOut(BatchOut):
    """A batch and its progress."""

    rate_per_second: float | None
    eta_ms: int | None
    causes: dict[str, int] | None


class LetterOut(Schema):
    """A dead letter."""

    id: int
    job_id: UUID
    state: str
    kind: str
    queue: str
    tenant: str
    attempt: int
    reason: str
    fingerprint: str
    summary: str
    opened_at: datetime
    closed_at: datetime | None
    expires_at: datetime
    history: list[MoveOut] | None = None


class CountOut(Schema):
    """How many it concerned."""

    count: int


class Done(Schema):
    """It is done."""

    ok: Literal[True] = True
