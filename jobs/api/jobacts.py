"""What can be done with one job."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Schema, Status

from jobs import registry
from jobs.api import auth, conditional, sight
from jobs.api.enqueues import section as section
from jobs.api.schemas import (
    CancelIn,
    CancelledOut,
    JobOut,
    JobPatch,
    MaybeWhyIn,
    ReplayedOut,
    ReplayIn,
    RetryIn,
    WhyIn,
)
from jobs.api.told import told_job
from jobs.engine import sql
from jobs.operate.cancel import cancel
from jobs.operate.edit import edit, run_now
from jobs.operate.replay import replay
from jobs.operate.retry import retry
from jobs.operate.shown import reveal_payload
from jobs.principals import Principal


class RevealedOut(Schema):
    """A payload in clear."""

    id: UUID
    payload: Any


@section.post(
    "/jobs/{uuid:job_id}/retry", "job_retry", needs="retry_job", answer=JobOut, verb="job.retry"
)
def job_retry(request: HttpRequest, job_id: UUID, body: RetryIn) -> Any:
    """The same job again."""
    who = auth.who(request)
    retry(job_id, by=who, **body.model_dump())
    return told_job(sight.job(who, job_id))


@section.post(
    "/jobs/{uuid:job_id}/replay",
    "job_replay",
    needs="replay_job",
    answer={201: ReplayedOut},
    verb="job.replay",
)
def job_replay(request: HttpRequest, response: HttpResponse, job_id: UUID, body: ReplayIn) -> Any:
    """A new job from the old one's payload, linked both ways."""
    who = auth.who(request)
    new = replayed(who, job_id, body)
    response["Location"] = request.path.replace(f"/{job_id}/replay", f"/{new}")
    return Status(201, {"id": new})


def replayed(who: Principal, job_id: UUID, body: ReplayIn) -> UUID:
    """The id of the new job."""
    options: dict[str, Any] = {}
    if body.priority is not None:
        options["priority"] = body.priority
    if body.payload is not None:
        kind = sight.job(who, job_id).kind
        options["payload"] = registry.get(kind).payload.build(body.payload)
    return replay(
        job_id,
        by=who,
        reason=body.reason,
        payload_patch=body.payload_patch,
        same_lineage=body.same_lineage,
        **options,
    )


@section.post(
    "/jobs/{uuid:job_id}/cancel",
    "job_cancel",
    needs="cancel_job",
    answer={200: CancelledOut, 202: CancelledOut},
    verb="job.cancel",
)
def job_cancel(request: HttpRequest, job_id: UUID, body: CancelIn) -> Any:
    """Cancel a waiting job at once; ask a running one to stop."""
    who = auth.who(request)
    found = cancel(job_id, by=who, reason=body.reason, force=body.mode == "force")
    return Status(202 if found.requested else 200, found)


@section.post(
    "/jobs/{uuid:job_id}/run-now", "job_run_now", needs="retry_job", answer=JobOut,
    verb="job.run_now",
)  # fmt: skip
def job_run_now(request: HttpRequest, job_id: UUID, body: MaybeWhyIn) -> Any:
    """A job that waits for its time is due."""
    who = auth.who(request)
    run_now(job_id, by=who, reason=body.reason)
    return told_job(sight.job(who, job_id))


@section.patch("/jobs/{uuid:job_id}", "job_edit", needs="edit_job", answer=JobOut, verb="job.edit")
def job_edit(request: HttpRequest, job_id: UUID, body: JobPatch) -> Any:
    """Other values for a job that waits; If-Match says which ones you have seen."""
    who = auth.who(request)
    job = sight.job(who, job_id)
    sql.rows("SELECT 1 FROM jobs_job WHERE id = %s FOR NO KEY UPDATE", [job_id])
    conditional.check(request, job)
    edit(job_id, by=who, **body.model_dump(exclude_unset=True))
    return told_job(sight.job(who, job_id))


@section.post(
    "/jobs/{uuid:job_id}/reveal-payload", "job_reveal_payload", needs="reveal_payload",
    answer=RevealedOut, verb="job.reveal_payload", secret=("payload",),
)  # fmt: skip
def job_reveal_payload(request: HttpRequest, job_id: UUID, body: WhyIn) -> Any:
    """The payload in clear, for a person who has to know; who asked, and why, is recorded."""
    found = reveal_payload(job_id, by=auth.who(request), reason=body.reason)
    return {"id": job_id, "payload": found}
