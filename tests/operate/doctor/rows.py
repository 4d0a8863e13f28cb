"""Rows that the doctor looks at, made by what makes them in earnest."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connection

import jobs
from jobs.engine import claims, dispatch, leases
from jobs.ids import uuid7
from jobs.operate.doctor import violations
from jobs.outcomes import Fault, decide
from tests.specimens.handlers import Fail, Noop


def run(statement: str, parameters: list[Any] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or [])


def found() -> set[str]:
    return {violation.invariant for violation in violations()}


def claimed(payload: jobs.Payload) -> claims.Claim:
    job = jobs.enqueue(payload)
    run("UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock() WHERE id = %s", [job.id])
    owner = uuid7()
    leases.open_lease(owner, "tester", ["default"], 1)
    [claim] = claims.claim(job.queue, [job.id], owner, "tester")
    return claim


def running() -> UUID:
    return claimed(Noop()).id


def succeeded() -> UUID:
    claim = claimed(Noop())
    claims.settle_successes([claims.Success(claim, "null")], "tester")
    return claim.id


def failed() -> UUID:
    claim = claimed(Fail())
    move = decide("unrecoverable", claim.counters, None)
    ended = claims.Ended(claim.id, claim.token, claim.kind, move, Fault("ValueError", "as told"))
    claims.settle_endings([ended], "tester")
    return claim.id


def holding() -> UUID:
    """A queued job that holds a key for which another one waits."""
    dispatch.know_queues({"default"})
    job = jobs.enqueue(Noop(), exclusive="door")
    assert dispatch.admit("default", 10)
    jobs.enqueue(Noop(), exclusive="door")
    assert not dispatch.admit("default", 10)
    return job.id


def blocked() -> UUID:
    return jobs.enqueue(Noop(), after=[jobs.enqueue(Noop(), delay=60).id]).id


def member() -> UUID:
    with jobs.batch("two") as batch:
        batch.add(Noop(), delay=60)
        return batch.add(Noop(), delay=60).id


def replayed() -> UUID:
    job_id = failed()
    jobs.replay(job_id, by="tester")
    return job_id


def tagged() -> UUID:
    return jobs.enqueue(Noop(), tags=["a", "b"], correlation_id="r").id
