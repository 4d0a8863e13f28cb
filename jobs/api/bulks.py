"""Bulk operations: looked at first, then carried out by jobs of the platform."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Query, Schema
from pydantic import ConfigDict

from jobs.api import auth
from jobs.api.inputs import In, rest_of
from jobs.api.sections import Section
from jobs.models import Bulk
from jobs.operate import bulk, verbs
from jobs.operate.permissions import RUN_BULK, VIEW_BULK

section = Section("bulk-operations", {"bulk": "/bulk-operations"})


class TargetsIn(In):
    """The action, and the jobs or dead letters: their ids, or a query."""

    action: bulk.ActionName
    ids: bulk.Ids = None
    query: bulk.Query = None
    options: dict[str, Any] = Field(default_factory=dict)


class SampleOut(Schema):
    """One of them."""

    id: UUID
    kind: str
    state: str


class PreviewOut(Schema):
    """What it would do now."""

    action: str
    eligible: int
    skipped: dict[str, int]
    kinds: dict[str, int]
    sample: list[SampleOut]
    before: datetime
    is_cut: bool
    looked: int | None
    """Counted among this many of the newest jobs only; null: among all."""
    token: str


class BulkOut(Schema):
    """A bulk operation."""

    id: UUID
    action: str
    query: str
    by: str
    reason: str
    state: str
    note: str
    per_minute: int | None
    canary: int
    stop_at: float | None
    total: int
    done: int
    skipped: int
    failed: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class BulkProgressOut(BulkOut):
    """A bulk operation and its progress."""

    rate_per_second: float
    eta_ms: int | None
    held: str
    """Why it does not go on, in words; empty: it goes on."""


class ItemOut(Schema):
    """What became of one of them."""

    id: int
    job_id: UUID
    letter_id: int | None
    state: str
    detail: str
    result: UUID | None
    decided_at: datetime | None


class AfterIn(Schema):
    """Which part of a list."""

    model_config = ConfigDict(extra="forbid")
    limit: int = Field(100, ge=1, le=200)


class ItemsIn(AfterIn):
    """Which items."""

    after: int = Field(0, ge=0, lt=2**63)
    state: Literal["waiting", "done", "skipped", "failed"] | None = None


class BulksIn(AfterIn):
    """Which operations."""

    before: UUID | None = None


def told_bulk(row: Bulk) -> dict[str, Any]:
    return {name: getattr(row, name) for name in BulkOut.model_fields}


@section.post(
    "/bulk-operations/preview",
    "bulk_preview",
    needs=RUN_BULK,
    answer=PreviewOut,
    keeps_answer=False,
)
def bulk_preview(request: HttpRequest, body: TargetsIn) -> Any:
    """What a bulk operation would do now; nothing is done."""
    return bulk.preview(
        body.action,
        ids=body.ids,
        query=body.query,
        by=auth.who(request),
        **rest_of(verbs.of(bulk.start), body.options),
    )


section.does(
    "bulk.start",
    "/bulk-operations",
    "bulk_start",
    answer={202: BulkOut},
    location="/bulk-operations/{id}",
    show=lambda who, bulk_id, made: told_bulk(made),
)


@section.get("/bulk-operations", "bulk_list", needs=VIEW_BULK, answer=list[BulkOut])
def bulk_list(request: HttpRequest, wanted: Query[BulksIn]) -> Any:
    """Bulk operations, newest first; ``before`` names the last one of the part before."""
    found = bulk.every(by=auth.who(request), limit=wanted.limit, before=wanted.before)
    return [told_bulk(row) for row in found]


@section.get("/bulk-operations/{uuid:bulk_id}", "bulk_get", needs=VIEW_BULK, answer=BulkProgressOut)
def bulk_get(request: HttpRequest, bulk_id: UUID) -> Any:
    """How far a bulk operation is."""
    found = bulk.progress(bulk_id, by=auth.who(request))
    eta = None if found.eta is None else round(found.eta * 1000)
    return {
        **told_bulk(found.bulk),
        "rate_per_second": found.rate,
        "eta_ms": eta,
        "held": found.held,
    }


@section.get(
    "/bulk-operations/{uuid:bulk_id}/items", "bulk_items", needs=VIEW_BULK, answer=list[ItemOut]
)
def bulk_items(request: HttpRequest, bulk_id: UUID, wanted: Query[ItemsIn]) -> Any:
    """What became of each; ``after`` is the id of the last one of the part before."""
    return bulk.items(
        bulk_id, by=auth.who(request), state=wanted.state, after=wanted.after, limit=wanted.limit
    )


section.does(
    "bulk.abort",
    "/bulk-operations/{uuid:bulk_id}/abort",
    "bulk_abort",
    answer=BulkOut,
    show=lambda who, bulk_id, found: told_bulk(found),
)


section.does(
    "bulk.proceed",
    "/bulk-operations/{uuid:bulk_id}/proceed",
    "bulk_proceed",
    answer=BulkOut,
    show=lambda who, bulk_id, found: told_bulk(found),
)
