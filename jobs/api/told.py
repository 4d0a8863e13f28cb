"""How rows are told: slim, redacted, and more of them only where it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db.models import Prefetch, QuerySet, prefetch_related_objects

from jobs.api.schemas import AttemptOut
from jobs.engine import sql
from jobs.models import Attempt, Batch, DeadLetter, Job
from jobs.models.guarded import Guarded
from jobs.operate.shown import public_data, public_payload

_JOB = (
    "id kind queue state priority tenant tags created_at run_at expires_at queued_at started_at "
    "finished_at attempt failures max_attempts reason error unique_key exclusive_key "
    "correlation_id batch_id parent_id replay_of replayed_by schedule_id cancel_requested_at"
)
_BATCH = (
    "id name note tenant state total succeeded failed cancelled expired generation created_at "
    "sealed_at finished_at"
)
_COUNTS = ("total", "succeeded", "failed", "cancelled", "expired")
_LETTER = (
    "id job_id state kind queue tenant attempt reason fingerprint summary opened_at closed_at "
    "expires_at"
)

ATTEMPTS, ATTEMPTS_IN_LISTS = 200, 5
"""How many attempts of a job are shown."""
_LOADED = "loaded_attempts"


def told_job(job: Job, include: Collection[str] = ()) -> dict[str, Any]:
    """The job, with what is asked for besides."""
    told = {name: getattr(job, name) for name in _JOB.split()}
    told["timeout_ms"] = round(job.timeout * 1000)
    if "payload" in include:
        told["payload"] = public_payload(job)
    if "progress" in include:
        told["progress"] = public_data(job.progress)
    if "attempts" in include:
        told["attempts"] = attempts_of(job)
    if "history" in include:
        told["history"] = history_of(job)
    return told


def attempts_of(job: Job) -> list[Attempt]:
    """Return the last attempts that did not succeed, oldest first, without their tracebacks."""
    loaded: list[Attempt] | None = getattr(job, _LOADED, None)
    found = _slim(job.attempts.all())[:ATTEMPTS] if loaded is None else loaded
    return list(reversed(found))


def load_attempts(found: Sequence[Job]) -> None:
    """Read the last few attempts of all jobs of a list at once."""
    few = _slim(Attempt.objects.using(sql.alias()))[:ATTEMPTS_IN_LISTS]
    prefetch_related_objects(found, Prefetch("attempts", few, to_attr=_LOADED))


def _slim(rows: QuerySet[Attempt]) -> QuerySet[Attempt]:
    return rows.order_by("-number").only("job_id", *AttemptOut.model_fields)


def history_of(row: Guarded) -> list[dict[str, Any]]:
    """The moves on the row."""
    return [
        {
            "at": datetime.fromtimestamp(float(move[0]), UTC),
            "source": move[1],
            "target": move[2],
            "by": move[3],
            "reason": move[4],
        }
        for move in row.history
        if len(move) >= 5
    ]


def told_batch(batch: Batch, *, is_counted: bool = True) -> dict[str, Any]:
    """The batch; numbers only where they count nothing that is out of sight."""
    told = {name: getattr(batch, name) for name in _BATCH.split()}
    return told if is_counted else {**told, **dict.fromkeys(_COUNTS)}


def told_letter(letter: DeadLetter, *, history: bool = False) -> dict[str, Any]:
    told = {name: getattr(letter, name) for name in _LETTER.split()}
    if history:
        told["history"] = history_of(letter)
    return told
