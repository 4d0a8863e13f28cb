"""Enqueueing: one job, up to a thousand together, or each of them for itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import ConfigDict

from jobs import registry
from jobs.api import auth, problem
from jobs.api.schemas import EnqueuedOut, JobIn, ManyIn, ManyOut
from jobs.api.sections import Section
from jobs.api.tracing import traced
from jobs.engine import intake, sql
from jobs.errors import HandlerError, InvalidOption, JobsError
from jobs.limits import Unique
from jobs.operate import batches, internal, sight
from jobs.operate.permissions import ENQUEUE_JOB
from jobs.principals import Principal

section = Section("jobs", {"job": "/jobs"})


class PartialIn(Schema):
    """Whether those that can be enqueued are, where others cannot."""

    model_config = ConfigDict(extra="forbid")
    partial: bool = False


class EachOut(Schema):
    """What became of one of the jobs: its id, or the problem that it is."""

    status: int
    id: UUID | None = None
    code: str = ""
    detail: str = ""
    errors: list[problem.FieldProblem] = Field(default_factory=list)


class PartialOut(Schema):
    """What became of each, in their order."""

    enqueued: int
    refused: int
    results: list[EachOut]


@section.post(
    "/jobs", "job_enqueue", needs=ENQUEUE_JOB, answer={201: EnqueuedOut, 200: EnqueuedOut}
)
def job_enqueue(request: HttpRequest, body: JobIn, response: HttpResponse) -> Any:
    """Enqueue a job; 200 where an earlier one has its unique key."""
    with traced(request):
        made = intake.enqueue(**draft_options(auth.who(request), body))
    if not made.gone:
        response["Location"] = f"{request.path}/{made.id}"
    return Status(200 if made.deduplicated else 201, made)


@section.post(
    "/jobs/batch", "job_enqueue_many", needs=ENQUEUE_JOB, answer={201: ManyOut, 207: PartialOut}
)  # fmt: skip
def job_enqueue_many(request: HttpRequest, body: ManyIn, wanted: Query[PartialIn]) -> Any:
    """Enqueue up to a thousand jobs, all or none; with ``partial`` all that can be."""
    who = auth.who(request)
    with traced(request):
        if wanted.partial:
            results = each(who, body.jobs)
            ids = [one["id"] for one in results if "id" in one]
            refused = len(results) - len(ids)
            return Status(207, {"enqueued": len(ids), "refused": refused, "results": results})
        ids = intake.enqueue_many(draft(who, one) for one in body.jobs)
    return Status(201, {"ids": ids})


def each(who: Principal, wanted: Sequence[JobIn]) -> list[dict[str, Any]]:
    """What became of each; those that can be enqueued are.

    They go together; only where that fails each goes for itself, so that its fault is its own.
    """
    results: list[dict[str, Any]] = [{} for _ in wanted]
    drafts: dict[int, intake.Draft] = {}
    for place, one in enumerate(wanted):
        try:
            drafts[place] = draft(who, one)
        except JobsError as error:
            results[place] = _refused(error)
    try:
        with transaction.atomic(using=sql.alias()):
            ids = intake.enqueue_many(drafts.values())
    except JobsError:
        for place, one_draft in drafts.items():
            results[place] = _alone(one_draft)
    else:
        for place, job_id in zip(drafts, ids, strict=True):
            results[place] = {"status": 201, "id": job_id}
    return results


def _alone(one: intake.Draft) -> dict[str, Any]:
    try:
        with transaction.atomic(using=sql.alias()):
            [made] = intake.enqueue_many([one])
    except JobsError as error:
        return _refused(error)
    return {"status": 201, "id": made}


def _refused(error: JobsError) -> dict[str, Any]:
    found = problem.of(error)
    if found is None:
        raise error
    return {
        "status": found.status,
        "code": found.code,
        "detail": found.detail,
        "errors": found.fields,
    }


def draft(who: Principal, body: JobIn) -> intake.Draft:
    """The job as the intake takes it."""
    options = draft_options(who, body)
    return intake.Draft(options.pop("payload"), **options)


def draft_options(who: Principal, body: JobIn) -> dict[str, Any]:
    """The options of an enqueue, all of them within sight."""
    handler = registry.get(body.kind)
    internal.check_kind(body.kind, who)
    if who.scope.tenants is None:  # those of other callers get a prefix
        internal.check_key(handler.kind, who, body.exclusive)
    tenant = body.tenant
    if tenant is None:
        own = who.scope.tenants
        tenant = next(iter(own)) if own is not None and len(own) == 1 else ""
    sight.check_tenant(who, tenant)
    sight.check_queue(who, body.queue or handler.queue)
    if body.batch is not None:
        sight.batch(who, body.batch)
        batches.check_whole(body.batch, who.scope)
    sight.check_jobs(who, body.after)
    if body.run_at is not None and body.delay_ms is not None:
        raise InvalidOption("delay_ms", "is given beside run_at")
    options: dict[str, Any] = {
        "payload": handler.payload.build(body.payload),
        "job_id": body.id,
        "queue": body.queue,
        "priority": body.priority,
        "run_at": body.run_at,
        "delay": None if body.delay_ms is None else timedelta(milliseconds=body.delay_ms),
        "expires": body.expires_at,
        "max_attempts": body.max_attempts,
        "tenant": tenant,
        "tags": body.tags,
        "correlation_id": body.correlation_id,
        "unique": _unique(body),
        "exclusive": _own_key(who, tenant, body.exclusive),
        "limit_key": _own_key(who, tenant, body.limit_key),
        "batch": body.batch,
        "after": body.after,
        "on_parent_failure": body.on_parent_failure,
    }
    return options


def _own_key(who: Principal, tenant: str, key: str) -> str:
    """Keys are everybody's, but those of callers who see some tenants only are theirs."""
    if not key or who.scope.tenants is None:
        return key
    return f"{tenant.replace('%', '%25').replace('/', '%2F')}/{key}"


def _unique(body: JobIn) -> Unique | None:
    if body.unique is None:
        return None
    within = body.unique.within_ms
    for_: Any = body.unique.for_ if within is None else timedelta(milliseconds=within)
    try:
        return Unique(body.unique.key, for_, body.unique.on_conflict)
    except HandlerError as error:  # whose own fault it is in a handler, but not here
        raise InvalidOption("unique", str(error)) from None
