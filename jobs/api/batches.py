"""Batches: made, filled, sealed, watched, cancelled and retried."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status

from jobs.api import auth, conditional, paging
from jobs.api.bulks import BulkOut, told_bulk
from jobs.api.enqueues import draft
from jobs.api.inputs import In
from jobs.api.schemas import (
    BatchOut,
    BatchProgressOut,
    CountOut,
    JobOut,
    ManyIn,
    ManyOut,
    State,
)
from jobs.api.sections import Section
from jobs.api.told import told_batch, told_job
from jobs.engine import intake
from jobs.models import Batch, Bulk
from jobs.operate import batches, deaths, sight
from jobs.operate.permissions import ENQUEUE_JOB, VIEW_BATCH, VIEW_DEADLETTER, VIEW_JOB
from jobs.principals import Principal

section = Section("batches", {"batch": "/batches"})


class BatchIn(In):
    """An empty batch."""

    name: str = Field("", max_length=200)
    tenant: str | None = Field(None, max_length=120)


class MembersIn(paging.PageIn):
    """Which members."""

    state: State | None = None


@section.post("/batches", "batch_create", needs=ENQUEUE_JOB, answer={201: BatchOut})
def batch_create(request: HttpRequest, response: HttpResponse, body: BatchIn) -> Any:
    """An open batch."""
    who = auth.who(request)
    own = who.scope.tenants
    tenant = body.tenant
    if tenant is None:
        tenant = next(iter(own)) if own is not None and len(own) == 1 else ""
    sight.check_tenant(who, tenant)
    made = batches.batch(body.name, tenant=tenant)
    response["Location"] = f"{request.path}/{made.id}"
    return Status(201, _shown(who, sight.batch(who, made.id)))


@section.post(
    "/batches/{uuid:batch_id}/jobs", "batch_add", needs=ENQUEUE_JOB, answer={201: ManyOut}
)
def batch_add(request: HttpRequest, batch_id: UUID, body: ManyIn) -> Any:
    """More members of an open batch, all or none."""
    who = auth.who(request)
    batch = sight.batch(who, batch_id)
    batches.check_whole(batch_id, who.scope)
    drafts = []
    for one in body.jobs:
        one.batch = batch_id
        if one.tenant is None:
            one.tenant = batch.tenant
        drafts.append(draft(who, one))
    return Status(201, {"ids": intake.enqueue_many(drafts)})


@section.post("/batches/{uuid:batch_id}/seal", "batch_seal", needs=ENQUEUE_JOB, answer=BatchOut)
def batch_seal(request: HttpRequest, batch_id: UUID) -> Any:
    """The batch takes no more members."""
    who = auth.who(request)
    sight.batch(who, batch_id)
    batches.check_whole(batch_id, who.scope)
    batches.seal(batch_id)
    return _shown(who, sight.batch(who, batch_id))


@section.get("/batches", "batch_list", needs=VIEW_BATCH, answer=paging.Listed[BatchOut])
def batch_list(request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]) -> Any:
    """Batches, newest first; without numbers for callers who see only some queues."""
    who = auth.who(request)
    found = paging.page(request, response, sight.batches(who), wanted)
    is_counted = who.scope.queues is None
    return {**found, "data": [told_batch(one, is_counted=is_counted) for one in found["data"]]}


def _shown(who: Principal, batch: Batch) -> dict[str, Any]:
    return told_batch(batch, is_counted=batches.lies_within(batch.pk, who.scope))


@section.get("/batches/{uuid:batch_id}", "batch_get", needs=VIEW_BATCH, answer=BatchProgressOut)
def batch_get(request: HttpRequest, response: HttpResponse, batch_id: UUID) -> Any:
    """How far a batch is."""
    who = auth.who(request)
    batch = sight.batch(who, batch_id)
    if not batches.lies_within(batch_id, who.scope):
        unknown = dict.fromkeys(("rate_per_second", "eta_ms", "causes"))
        tag = conditional.tag(batch, "uncounted")
        told = {**told_batch(batch, is_counted=False), **unknown}
        return conditional.fresh(request, response, tag) or told
    progress = batches.progress(batch_id)
    told = {
        **told_batch(batch),
        "total": progress.total,
        "rate_per_second": round(progress.rate, 3),
        "eta_ms": None if progress.eta is None else round(progress.eta * 1000),
        "causes": progress.causes,
    }
    tag = conditional.tag(batch, progress.total, progress.rate)
    return conditional.fresh(request, response, tag) or told


@section.get(
    "/batches/{uuid:batch_id}/jobs",
    "batch_jobs",
    needs=VIEW_BATCH,
    answer=paging.Listed[JobOut],
)
def batch_jobs(
    request: HttpRequest, response: HttpResponse, batch_id: UUID, wanted: Query[MembersIn]
) -> Any:
    """Members of a batch, newest first."""
    who = auth.need(request, VIEW_JOB)
    sight.batch(who, batch_id)
    rows = sight.jobs(who).filter(batch_id=batch_id)
    if wanted.state is not None:
        rows = rows.filter(state=wanted.state)
    found = paging.page(request, response, rows, wanted, filters={"state": wanted.state})
    return {**found, "data": [told_job(job) for job in found["data"]]}


class FailuresOut(Schema):
    """Causes of failed members with open dead letters; ``count`` stops at ten thousand."""

    fingerprint: str
    summary: str
    count: int
    latest_job: UUID
    last_at: datetime


@section.get(
    "/batches/{uuid:batch_id}/failures", "batch_failures", needs=VIEW_BATCH,
    answer=list[FailuresOut],
)  # fmt: skip
def batch_failures(request: HttpRequest, batch_id: UUID) -> Any:
    """Why members failed, the most frequent cause first."""
    who = auth.need(request, VIEW_DEADLETTER)
    sight.batch(who, batch_id)
    return deaths.of_batch(batch_id, by=who)


section.does(
    "batch.note",
    "/batches/{uuid:batch_id}/note",
    "batch_note",
    answer=BatchOut,
    show=lambda who, batch_id, found: _shown(who, sight.batch(who, batch_id)),
)


def _done(who: Principal, batch_id: UUID, found: int | Bulk) -> Any:
    if isinstance(found, int):
        return Status(200, {"count": found})
    return Status(202, told_bulk(found))


_ALL: dict[str, Any] = {
    "answer": {200: CountOut, 202: BulkOut},
    "location": "/bulk-operations/{id}",
    "show": _done,
}


section.does(
    "batch.cancel_rest",
    "/batches/{uuid:batch_id}/cancel",
    "batch_cancel",
    **_ALL,
)


section.does(
    "batch.retry_failed",
    "/batches/{uuid:batch_id}/retry-failed",
    "batch_retry_failed",
    **_ALL,
)
