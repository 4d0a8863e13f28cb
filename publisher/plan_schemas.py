"""What operations of plans take and return."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Field, Schema
from pydantic import AwareDatetime

from jobs.api import In, paging
from publisher import plans

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
    """That the clocks change there."""
    warnings: list[str]
    """What other posts of the account have in common with it: their text, or their hour."""
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
