"""How payloads are shown: masked to everybody, in clear to those who say who they are and why."""

from __future__ import annotations

import json
import logging
from typing import Any
from uuid import UUID

from jobs import sensitive
from jobs.engine import sql
from jobs.errors import UnknownJob
from jobs.models import Job
from jobs.operate.permissions import REVEAL_PAYLOAD
from jobs.operate.targets import JOB
from jobs.operate.verbs import acting, verb
from jobs.principals import By
from jobs.redaction import redact

log = logging.getLogger("jobs.privacy")


def public_payload(job: Job) -> Any:
    """The job's payload as pages, answers and terminals show it; needs no key.

    Sensitive fields are hidden, and so is whatever stands under a telling name.
    """
    return redact(sensitive.masked(job.payload), patterns=False)


def public_data(data: Any) -> Any:
    """A stored result, progress or request, shown by the same rules."""
    return redact(sensitive.masked(data), patterns=False)


@verb("job.reveal_payload", on=JOB, permission=REVEAL_PAYLOAD, group="administrator")
def reveal_payload(job_id: UUID, *, by: By, reason: str) -> dict[str, Any]:
    """Show a payload in clear; who asked, and why, is recorded."""
    with acting(reveal_payload, job_id, by=by, reason=reason) as act:
        found = sql.rows("SELECT payload::text, tenant FROM jobs_job WHERE id = %s", [job_id])
        if not found:
            raise UnknownJob(job_id)
        [(text, tenant)] = found
        data: dict[str, Any] = json.loads(
            sensitive.opened(text, sensitive.place_of(text, job_id, tenant))
        )
        log.warning("the payload of job %s was revealed to %s: %s", job_id, act.name, act.reason)
    return data
