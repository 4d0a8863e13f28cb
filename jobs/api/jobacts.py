"""What can be done with one job."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ninja import Schema, Status

from jobs.api.enqueues import section as section
from jobs.api.schemas import CancelledOut, JobOut, ReplayedOut
from jobs.api.told import told_job
from jobs.operate import sight
from jobs.principals import Principal


class RevealedOut(Schema):
    """A payload in clear."""

    id: UUID
    payload: Any


def _job(who: Principal, job_id: UUID, found: object) -> Any:
    return told_job(sight.job(who, job_id))


section.does(
    "job.retry",
    "/jobs/{uuid:job_id}/retry",
    "job_retry",
    answer=JobOut,
    show=_job,
)


section.does(
    "job.replay",
    "/jobs/{uuid:job_id}/replay",
    "job_replay",
    answer={201: ReplayedOut},
    location="/jobs/{id}",
    show=lambda who, job_id, new: {"id": new},
)


section.does(
    "job.cancel",
    "/jobs/{uuid:job_id}/cancel",
    "job_cancel",
    answer={200: CancelledOut, 202: CancelledOut},
    show=lambda who, job_id, found: Status(202 if found.requested else 200, found),
)


section.does(
    "job.run_now",
    "/jobs/{uuid:job_id}/run-now",
    "job_run_now",
    answer=JobOut,
    show=_job,
)


section.does(
    "job.edit",
    "/jobs/{uuid:job_id}",
    "job_edit",
    answer=JobOut,
    locked=sight.job,
    show=_job,
)


section.does(
    "job.reveal_payload",
    "/jobs/{uuid:job_id}/reveal-payload",
    "job_reveal_payload",
    answer=RevealedOut,
    secret=("payload",),
    show=lambda who, job_id, found: {"id": job_id, "payload": found},
)
