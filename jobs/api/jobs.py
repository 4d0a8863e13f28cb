"""Jobs: enqueue, look, and everything that can be done with one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import ConfigDict

from jobs import registry
from jobs.api import auth, conditional, paging, sight
from jobs.api.endpoints import Section
from jobs.api.schemas import (
    AttemptOut,
    CancelIn,
    CancelledOut,
    EnqueuedOut,
    ExplanationOut,
    JobIn,
    JobOut,
    JobPatch,
    ManyIn,
    ManyOut,
    MaybeWhyIn,
    MoveOut,
    ReplayedOut,
    ReplayIn,
    ResultOut,
    RetryIn,
)
from jobs.api.told import attempts_of, history_of, told_job
from jobs.api.tracing import traced
from jobs.engine import intake, sql
from jobs.errors import InvalidOption
from jobs.limits import Unique
from jobs.operate import search
from jobs.operate.cancel import cancel
from jobs.operate.edit import edit, run_now
from jobs.operate.explain import explain
from jobs.operate.replay import replay
from jobs.operate.retry import retry
from jobs.operate.shown import public_data
from jobs.principals import Principal

section = Section("jobs")
router = section.router
Include = Literal["payload", "attempts", "history", "progress"]


class Includes(Schema):
    """What else is told of each job."""

    model_config = ConfigDict(extra="forbid")
    include: list[Include] = Field(default_factory=list, max_length=8)


class ListIn(paging.PageIn):
    """Which jobs: a query, and a page of them."""

    query: str = Field("", max_length=1000)
    include: list[Include] = Field(default_factory=list, max_length=8)


class JobsOut(paging.Listed[JobOut]):
    """A page of jobs; notices say what was not looked at."""

    notices: list[str] = []


@section.post(
    "/jobs", "job_enqueue", needs="enqueue_job", answer={201: EnqueuedOut, 200: EnqueuedOut}
)
def job_enqueue(request: HttpRequest, body: JobIn, response: HttpResponse) -> Any:
    """Enqueue a job; 200 where an earlier one has its unique key."""
    with traced(request) as trace:
        made = intake.enqueue(**_draft(auth.who(request), body))
        if not made.deduplicated:
            trace([made.id])
    response["Location"] = f"{request.path}/{made.id}"
    return Status(200 if made.deduplicated else 201, made)


@section.post("/jobs/batch", "job_enqueue_many", needs="enqueue_job", answer={201: ManyOut})
def job_enqueue_many(request: HttpRequest, body: ManyIn) -> Any:
    """Enqueue up to a thousand jobs, all or none."""
    who = auth.who(request)
    with traced(request) as trace:
        ids = intake.enqueue_many(_as_draft(_draft(who, one)) for one in body.jobs)
        trace(ids)
    return Status(201, {"ids": ids})


def _as_draft(options: dict[str, Any]) -> intake.Draft:
    return intake.Draft(options.pop("payload"), **options)


def _draft(who: Principal, body: JobIn) -> dict[str, Any]:
    """The options of an enqueue, all of them within sight."""
    handler = registry.get(body.kind)
    tenant = body.tenant
    if tenant is None:
        own = who.scope.tenants
        tenant = next(iter(own)) if own is not None and len(own) == 1 else ""
    sight.check_tenant(who, tenant)
    sight.check_queue(who, body.queue or handler.queue)
    if body.batch is not None:
        sight.batch(who, body.batch)
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
        "exclusive": body.exclusive,
        "limit_key": body.limit_key,
        "batch": body.batch,
        "after": body.after,
        "on_parent_failure": body.on_parent_failure,
    }
    return options


def _unique(body: JobIn) -> Unique | None:
    if body.unique is None:
        return None
    within = body.unique.within_ms
    for_: Any = body.unique.for_ if within is None else timedelta(milliseconds=within)
    return Unique(body.unique.key, for_, body.unique.on_conflict)


@section.get("/jobs", "job_list", needs="view_job", answer=JobsOut)
def job_list(request: HttpRequest, response: HttpResponse, wanted: Query[ListIn]) -> Any:
    """Jobs, newest first, that a query asks for."""
    who = _allowed(request, wanted.include)
    place = paging.place_in(request, wanted, wanted.query)
    at = None if place is None else (place[1], UUID(place[2]))
    backwards = place is not None and place[0]
    found = search.jobs(
        wanted.query,
        by=who,
        limit=wanted.limit,
        after=None if backwards else at,
        before=at if backwards else None,
    )
    page = {
        "next": paging.place_out(request, wanted.query, False, found.next),
        "prev": paging.place_out(request, wanted.query, True, found.previous),
        "limit": wanted.limit,
    }
    paging.link(request, response, page)
    data = [told_job(job, wanted.include) for job in found.jobs]
    return {"data": data, "page": page, "notices": list(found.notices)}


@section.get("/jobs/{uuid:job_id}", "job_get", needs="view_job", answer=JobOut)
def job_get(
    request: HttpRequest, response: HttpResponse, job_id: UUID, wanted: Query[Includes]
) -> Any:
    """One job."""
    job = sight.job(_allowed(request, wanted.include), job_id)
    tag = conditional.tag(job, *sorted(set(wanted.include)))
    return conditional.fresh(request, response, tag) or told_job(job, wanted.include)


def _allowed(request: HttpRequest, include: list[Include]) -> Principal:
    return auth.need(request, "view_payload" if {"payload", "progress"} & {*include} else "")


@section.get(
    "/jobs/{uuid:job_id}/attempts", "job_attempts", needs="view_job", answer=list[AttemptOut]
)
def job_attempts(request: HttpRequest, job_id: UUID) -> Any:
    """The attempts that did not succeed."""
    return attempts_of(sight.job(auth.who(request), job_id))


@section.get("/jobs/{uuid:job_id}/history", "job_history", needs="view_job", answer=list[MoveOut])
def job_history(request: HttpRequest, job_id: UUID) -> Any:
    """Every move of the job from state to state."""
    return history_of(sight.job(auth.who(request), job_id))


@section.get("/jobs/{uuid:job_id}/result", "job_result", needs="view_payload", answer=ResultOut)
def job_result(request: HttpRequest, job_id: UUID) -> Any:
    """What the handler returned, without what is sensitive; null before it has."""
    job = sight.job(auth.need(request, "view_job"), job_id)
    return {"id": job.pk, "state": job.state, "result": public_data(job.result)}


@section.get("/jobs/{uuid:job_id}/explain", "job_explain", needs="view_job", answer=ExplanationOut)
def job_explain(request: HttpRequest, job_id: UUID) -> Any:
    """Why the job is not running, or what became of it."""
    who = auth.who(request)
    sight.job(who, job_id)
    told = explain(job_id).as_data()
    if not who.scope.is_everything:
        for reason in told["reasons"]:
            reason["ids"] = [one for one in reason["ids"] if _sees(who, one)]
    return told


def _sees(who: Principal, text: str) -> bool:
    """Ids of jobs are told only of those that may be seen; others are numbers of this job's own."""
    try:
        job_id = UUID(text)
    except ValueError:
        return True
    return sight.is_visible(who, "job", job_id)


@section.post(
    "/jobs/{uuid:job_id}/retry", "job_retry", needs="retry_job", answer=JobOut, verb="job.retry"
)
def job_retry(request: HttpRequest, job_id: UUID, body: RetryIn) -> Any:
    """The same job again."""
    who = auth.who(request)
    retry(job_id, by=who, reason=body.reason, attempts=body.attempts)
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
    if body.payload is not None:
        kind = sight.job(who, job_id).kind
        options["payload"] = registry.get(kind).payload.build(body.payload)
    if body.priority is not None:
        options["priority"] = body.priority
    return replay(job_id, by=who, reason=body.reason, **options)


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
