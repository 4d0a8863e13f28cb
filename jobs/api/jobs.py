"""Jobs, as one looks at them: lists, one job, its attempts, its moves, its result."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import ConfigDict

from jobs.api import auth, conditional, paging
from jobs.api.enqueues import section as section
from jobs.api.numbers import NumberOut
from jobs.api.schemas import (
    AttemptDetailOut,
    AttemptOut,
    ExplanationOut,
    JobOut,
    MoveOut,
    ResultOut,
)
from jobs.api.told import attempts_of, history_of, load_attempts, told_job
from jobs.api.waiting import ended
from jobs.operate import search, sight
from jobs.operate.explained import explain_to
from jobs.operate.permissions import VIEW_JOB, VIEW_PAYLOAD
from jobs.operate.shown import public_data
from jobs.principals import Principal
from jobs.states import FINAL_STATES

Include = Literal["payload", "attempts", "history", "progress"]
WAIT_LIMIT = 30.0


class Includes(Schema):
    """What else is included for each job."""

    model_config = ConfigDict(extra="forbid")
    include: list[Include] = Field(default_factory=list, max_length=8)


class ListIn(paging.PageIn):
    """Which jobs: a query, and a page of them; ``count`` says how many there are."""

    query: str = Field("", max_length=1000)
    include: list[Include | Literal["count"]] = Field(default_factory=list, max_length=8)


class JobsOut(paging.Listed[JobOut]):
    """A page of jobs; notices say what was not looked at; counts stop at ten thousand."""

    notices: list[str] = []
    count: NumberOut | None = None


@section.get("/jobs", "job_list", needs=VIEW_JOB, answer=JobsOut)
def job_list(request: HttpRequest, response: HttpResponse, wanted: Query[ListIn]) -> Any:
    """Jobs that match a query, newest first."""
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
    if "attempts" in wanted.include:
        load_attempts(found.jobs)
    data = [told_job(job, wanted.include) for job in found.jobs]
    count = search.counts(wanted.query, by=who)["all"] if "count" in wanted.include else None
    return {"data": data, "page": page, "notices": list(found.notices), "count": count}


@section.get("/jobs/{uuid:job_id}", "job_get", needs=VIEW_JOB, answer=JobOut)
def job_get(
    request: HttpRequest, response: HttpResponse, job_id: UUID, wanted: Query[Includes]
) -> Any:
    """One job."""
    job = sight.job(_allowed(request, wanted.include), job_id)
    tag = conditional.tag(job, *sorted(set(wanted.include)))
    return conditional.fresh(request, response, tag) or told_job(job, wanted.include)


def _allowed(request: HttpRequest, include: Collection[str]) -> Principal:
    return auth.need(request, VIEW_PAYLOAD if {"payload", "progress"} & {*include} else "")


@section.get(
    "/jobs/{uuid:job_id}/attempts", "job_attempts", needs=VIEW_JOB, answer=list[AttemptOut]
)
def job_attempts(request: HttpRequest, job_id: UUID) -> Any:
    """The last 200 attempts that did not succeed."""
    return attempts_of(sight.job(auth.who(request), job_id))


@section.get(
    "/jobs/{uuid:job_id}/attempts/{int:number}", "job_attempt", needs=VIEW_JOB,
    answer=AttemptDetailOut,
)  # fmt: skip
def job_attempt(request: HttpRequest, job_id: UUID, number: int) -> Any:
    """One attempt that did not succeed, with its traceback and the last lines of its log."""
    job = sight.job(auth.who(request), job_id)
    return sight.one(job.attempts.all(), "attempt", number, "number")


@section.get("/jobs/{uuid:job_id}/history", "job_history", needs=VIEW_JOB, answer=list[MoveOut])
def job_history(request: HttpRequest, job_id: UUID) -> Any:
    """Every move of the job from state to state."""
    return history_of(sight.job(auth.who(request), job_id))


class ResultIn(Schema):
    """For how many seconds one would wait for it."""

    model_config = ConfigDict(extra="forbid")
    wait: float = Field(0, ge=0, le=WAIT_LIMIT)


@section.get(
    "/jobs/{uuid:job_id}/result", "job_result", needs=VIEW_PAYLOAD,
    answer={200: ResultOut, 202: ResultOut},
)  # fmt: skip
def job_result(request: HttpRequest, job_id: UUID, wanted: Query[ResultIn]) -> Any:
    """What the handler returned, without what is sensitive; 202 while the job has not ended."""
    who = auth.need(request, VIEW_JOB)
    sight.job(who, job_id)
    ended(job_id, wanted.wait)
    job = sight.job(who, job_id)
    told = {"id": job.pk, "state": job.state, "result": public_data(job.result)}
    return Status(200 if job.state in FINAL_STATES else 202, told)


@section.get("/jobs/{uuid:job_id}/explain", "job_explain", needs=VIEW_JOB, answer=ExplanationOut)
def job_explain(request: HttpRequest, job_id: UUID) -> Any:
    """Why the job is not running, or what became of it."""
    who = auth.who(request)
    sight.job(who, job_id)
    return explain_to(job_id, by=who).as_data()
