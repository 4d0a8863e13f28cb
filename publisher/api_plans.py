"""The operations of plans: drafts, versions, approvals, comments and slots."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import AwareDatetime

from jobs.api import In, Problem, auth, paging
from publisher import plan_verbs, plans, verbs
from publisher.api import problem_of, section, within
from publisher.errors import Refused
from publisher.models import Approval, Comment, Plan, PlanVersion, Slot

State = Literal["draft", "ready", "approved", "scheduled", "published", "failed"]


class SlotIn(In):
    """When the plan is to appear on an account."""

    channel: str = Field(max_length=100)
    at: str = Field(min_length=1, max_length=40)
    """With an offset, or a local time of the zone."""
    account: UUID | None = None
    zone: str = Field("", max_length=64)
    """By default, that of the brand."""
    publish_until: AwareDatetime | None = None


class PlanIn(In):
    """A post for one or more channels."""

    brand: str = Field(min_length=1, max_length=60)
    title: str = Field(min_length=1, max_length=150)
    content: dict[str, Any] = Field(default_factory=dict)
    """As the payload of a post, with ``overrides`` by channel."""
    template: UUID | None = None
    """Of the brand; the content replaces what it gives of the template's."""
    slots: list[SlotIn] = Field(default_factory=list, max_length=plans.MOST_SLOTS)


class PlanChange(In):
    """A new title, or a new content in place of the current one."""

    title: str | None = Field(None, min_length=1, max_length=150)
    content: dict[str, Any] | None = None


class SlotOut(Schema):
    """A slot, and the publication that it has led to."""

    id: UUID
    channel: str
    account: UUID
    at: datetime
    local_time: str
    zone: str
    publish_until: datetime | None
    warning: Literal["", "skipped", "doubled"]
    publication: UUID | None
    status: str
    """Of its publication; empty without one."""
    url: str


class PlanOut(Schema):
    """A plan."""

    id: UUID
    brand: str
    title: str
    status: State
    version: int
    content: dict[str, Any]
    slots: list[SlotOut]
    created_by: str
    created_at: datetime


class PlanSummary(Schema):
    """A plan in a list."""

    id: UUID
    brand: str
    title: str
    status: State
    version: int
    created_at: datetime


class PlanPage(Schema):
    """A page of plans, newest first."""

    data: list[PlanSummary]
    page: paging.PageOut


class PlanFilters(Schema):
    """Filters of the list."""

    status: State | None = None
    brand: str | None = Field(None, max_length=60)


class VersionOut(Schema):
    """A version of the content of a plan."""

    number: int
    content: dict[str, Any]
    by: str
    at: datetime


class VersionsOut(Schema):
    """The versions of a plan, newest first."""

    data: list[VersionOut]


class ApprovalIn(In):
    """A decision about a plan."""

    decision: Literal["approved", "rejected"] = "approved"
    note: str = Field("", max_length=5000)
    version: int | None = Field(None, ge=1)
    """The version that was read; another one is refused."""


class ApprovalOut(Schema):
    """A decision about a version of a plan."""

    version: int
    decision: Literal["approved", "rejected"]
    note: str
    by: str
    at: datetime
    voided_at: datetime | None


class ApprovalsOut(Schema):
    """The decisions about a plan, newest first."""

    data: list[ApprovalOut]


class StatusIn(In):
    """The next status of a plan."""

    status: Literal["draft", "ready", "approved", "scheduled"]
    reason: str = Field("asked by API", min_length=1, max_length=500)


class CommentIn(In):
    """A comment."""

    body: str = Field(min_length=1, max_length=5000)


class CommentOut(Schema):
    """A comment on a plan, with the members that it mentions."""

    id: int
    body: str
    mentions: list[str]
    by: str
    at: datetime


class CommentPage(Schema):
    """The comments on a plan, oldest first."""

    data: list[CommentOut]


LISTED = 500
"""At most so many versions, approvals or comments are listed."""


def _done(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Refused as error:
        raise problem_of(error) from None


@section.get("/plans", "plan_list", needs=verbs.VIEW_PLAN, answer=PlanPage)
def plan_list(
    request: HttpRequest,
    response: HttpResponse,
    filters: Query[PlanFilters],
    wanted: Query[paging.PageIn],
) -> Any:
    """List plans, newest first."""
    rows, asked = _plans(request), filters.model_dump(exclude_none=True)
    if filters.status is not None:
        rows = rows.filter(status=filters.status)
    if filters.brand is not None:
        rows = rows.filter(tenant=f"brand:{filters.brand}")
    found = paging.page(request, response, rows, wanted, moment="created_at", filters=asked)
    return {**found, "data": [_summary(row) for row in found["data"]]}


@section.post("/plans", "plan_create", verb="plan.create", answer={201: PlanOut})
def plan_create(request: HttpRequest, body: PlanIn) -> Any:
    places = [plans.Place(**one.model_dump()) for one in body.slots]
    who = auth.who(request)
    made = _done(
        lambda: plan_verbs.create_with(
            body.brand, body.title, body.content, places, by=who, template=body.template
        )
    )
    return Status(201, shown(_found(request, made.pk)))


@section.get("/plans/{uuid:plan_id}", "plan_get", needs=verbs.VIEW_PLAN, answer=PlanOut)
def plan_get(request: HttpRequest, plan_id: UUID) -> Any:
    """Get a plan with its content and slots."""
    return shown(_found(request, plan_id))


@section.patch("/plans/{uuid:plan_id}", "plan_edit", verb="plan.edit", answer=PlanOut)
def plan_edit(request: HttpRequest, plan_id: UUID, body: PlanChange) -> Any:
    _found(request, plan_id)
    who = auth.who(request)
    _done(lambda: plan_verbs.edit_with(plan_id, body.content, body.title, by=who))
    return shown(_found(request, plan_id))


@section.get("/plans/{uuid:plan_id}/versions", "plan_versions",
    needs=verbs.VIEW_PLAN, answer=VersionsOut,
)  # fmt: skip
def plan_versions(request: HttpRequest, plan_id: UUID) -> Any:
    """List the versions of a plan, newest first."""
    rows = PlanVersion.objects.filter(plan=_found(request, plan_id)).order_by("-number")
    return {"data": [
        {"number": one.number, "content": one.content, "by": one.by, "at": one.at}
        for one in rows[:LISTED]
    ]}  # fmt: skip


@section.get("/plans/{uuid:plan_id}/approvals", "plan_approvals",
    needs=verbs.VIEW_PLAN, answer=ApprovalsOut,
)  # fmt: skip
def plan_approvals(request: HttpRequest, plan_id: UUID) -> Any:
    """List the decisions about a plan, newest first."""
    rows = Approval.objects.filter(version__plan=_found(request, plan_id))
    found = rows.select_related("version").order_by("-id")[:LISTED]
    return {"data": [
        {"version": one.version.number, "decision": one.decision, "note": one.note, "by": one.by,
         "at": one.at, "voided_at": one.voided_at}
        for one in found
    ]}  # fmt: skip


@section.post("/plans/{uuid:plan_id}/approvals", "plan_decide", verb="plan.approve",
    answer=PlanOut,
)  # fmt: skip
def plan_decide(request: HttpRequest, plan_id: UUID, body: ApprovalIn) -> Any:
    _found(request, plan_id)
    who = auth.who(request)
    act: Any = plan_verbs.approve if body.decision == "approved" else plan_verbs.reject
    _done(lambda: act(plan_id, by=who, note=body.note, version=body.version))
    return shown(_found(request, plan_id))


@section.post("/plans/{uuid:plan_id}/status", "plan_status", needs=verbs.VIEW_PLAN,
    answer=PlanOut,
)  # fmt: skip
def plan_status(request: HttpRequest, plan_id: UUID, body: StatusIn) -> Any:
    """Move a plan to the next status, as its own operations do; each asks for its permission."""
    _found(request, plan_id)
    who = auth.who(request)
    acts: dict[str, Callable[[], None]] = {
        "draft": lambda: plan_verbs.reopen(plan_id, by=who, reason=body.reason),
        "ready": lambda: plan_verbs.submit(plan_id, by=who),
        "approved": lambda: plan_verbs.approve(plan_id, by=who),
        "scheduled": lambda: plan_verbs.schedule(plan_id, by=who),
    }
    _done(acts[body.status])
    return shown(_found(request, plan_id))


@section.get("/plans/{uuid:plan_id}/comments", "plan_comments",
    needs=verbs.VIEW_PLAN, answer=CommentPage,
)  # fmt: skip
def plan_comments(request: HttpRequest, plan_id: UUID) -> Any:
    """List the comments on a plan, oldest first."""
    rows = Comment.objects.filter(plan=_found(request, plan_id)).order_by("id")
    return {"data": [_comment(one) for one in rows[:LISTED]]}


@section.post("/plans/{uuid:plan_id}/comments", "plan_comment_add", verb="plan.comment",
    answer={201: CommentOut},
)  # fmt: skip
def plan_comment_add(request: HttpRequest, plan_id: UUID, body: CommentIn) -> Any:
    _found(request, plan_id)
    who = auth.who(request)
    made = _done(lambda: plan_verbs.comment(plan_id, body.body, by=who))
    return Status(201, _comment(Comment.objects.get(pk=made)))


section.does(
    "plan.schedule", "/plans/{uuid:plan_id}/schedule", "plan_schedule", answer=PlanOut,
    show=lambda who, target, result: shown(_plan(target)),
)  # fmt: skip


def _comment(row: Comment) -> dict[str, Any]:
    return {
        "id": row.pk, "body": row.body, "mentions": row.mentions, "by": row.by, "at": row.at,
    }  # fmt: skip


def _plans(request: HttpRequest) -> QuerySet[Plan]:
    return within(request, Plan.objects.all())


def _found(request: HttpRequest, plan_id: UUID) -> Plan:
    row = _plans(request).filter(pk=plan_id).first()
    if row is None:
        raise Problem(404, "not-found", "there is no such plan")
    return row


def _plan(plan_id: UUID) -> Plan:
    return Plan.objects.get(pk=plan_id)


def _summary(row: Plan) -> dict[str, Any]:
    return {
        "id": row.pk, "brand": row.tenant.removeprefix("brand:"), "title": row.title,
        "status": row.status, "version": row.version, "created_at": row.created_at,
    }  # fmt: skip


def shown(row: Plan) -> dict[str, Any]:
    """Return a plan for an answer."""
    slots = row.slots.select_related("publication").order_by("at", "id")
    return {
        **_summary(row), "content": plans.current(row).content, "created_by": row.created_by,
        "slots": [_slot(one) for one in slots],
    }  # fmt: skip


def _slot(row: Slot) -> dict[str, Any]:
    post = row.publication
    return {
        "id": row.pk, "channel": row.channel, "account": row.account_id, "at": row.at,
        "local_time": row.local_time, "zone": row.zone, "publish_until": row.publish_until,
        "warning": row.note, "publication": row.publication_id,
        "status": post.status if post else "", "url": post.url if post else "",
    }  # fmt: skip
