"""The operations of plans: drafts, versions, approvals, comments and slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query, Status

from jobs.api import Problem, auth, paging
from publisher import plan_verbs, plans, repeats, verbs
from publisher.api import problem_of, section, within
from publisher.drafts import Draft
from publisher.errors import Refused
from publisher.models import Approval, Comment, Plan, PlanVersion, Slot
from publisher.plan_schemas import (
    ApprovalIn,
    ApprovalsOut,
    CommentIn,
    CommentOut,
    CommentPage,
    PlanChange,
    PlanFilters,
    PlanIn,
    PlanOut,
    PlanPage,
    StatusIn,
    VersionsOut,
)

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


for _verb in ("submit", "reject", "reopen", "schedule", "add_slot", "override"):
    section.does(
        f"plan.{_verb}", f"/plans/{{uuid:plan_id}}/{_verb.replace('_', '-')}", f"plan_{_verb}",
        answer=PlanOut, show=lambda who, target, result: shown(_plan(target)),
    )  # fmt: skip
section.does(
    "plan.copy", "/plans/{uuid:plan_id}/copy", "plan_copy", answer={201: PlanOut},
    show=lambda who, target, result: shown(_plan(result)),
)  # fmt: skip
for _verb in ("move", "remove"):
    section.does(
        f"slot.{_verb}", f"/slots/{{uuid:slot_id}}/{_verb}", f"slot_{_verb}",
        answer=PlanOut, show=lambda who, target, result: shown(_plan(result)),
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
    slots = row.slots.select_related("publication", "account__brand").order_by("at", "id")
    draft = plans.draft_of(row)
    return {
        **_summary(row), "content": draft.kept(), "created_by": row.created_by,
        "slots": [_slot(one, draft) for one in slots],
    }  # fmt: skip


def _slot(row: Slot, draft: Draft) -> dict[str, Any]:
    post = row.publication
    return {
        "id": row.pk, "channel": row.channel, "account": row.account_id, "at": row.at,
        "local_time": row.local_time, "zone": row.zone, "publish_until": row.publish_until,
        "warning": row.note, "warnings": repeats.of_slot(row, draft),
        "publication": row.publication_id, "status": post.status if post else "",
        "url": post.url if post else "",
    }  # fmt: skip
