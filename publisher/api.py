"""The operations of the publisher: posts, whether a time would work, and the blackout windows."""

from __future__ import annotations

import dataclasses
import re
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import Count, Min, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import AwareDatetime, ValidationError

from jobs.api import In, Problem, Section, auth, paging
from jobs.verbs import permissions
from publisher import alerts, config, services, times, verbs, windows
from publisher.clock import now
from publisher.content import Content
from publisher.errors import Fault, Refused
from publisher.models import Account, Publication

RATE = "60/m"
BULK = 100
_STATUS = {services.INVALID_CHANNEL: 400, services.INVALID_JOB: 400}
"""The statuses of problems; others are 422."""


_PLANNING = re.compile("/(?:plans|slots|assets|preflight|templates)")


def with_codes(request: HttpRequest, found: Problem) -> Problem:
    """Give a body that cannot be read, and a fault of our own, the code of this API."""
    writes_job = request.path.endswith(("/jobs", "/jobs/test", "/jobs/bulk"))
    if found.status == 500:
        found.code = "fp_publisher_queue_error"
    elif writes_job and request.method == "POST" and found.code in ("invalid", "invalid-json"):
        found.status, found.code = 400, services.INVALID_JOB
    elif found.status == 422 and found.code == "invalid" and _PLANNING.search(request.path):
        found.code = services.INVALID_PLAN
    return found


def problem_of(error: Refused) -> Problem:
    """Convert a refusal to a problem with a pointer for each fault."""
    fields = [
        {"pointer": f"/{f.field}", "message": f.message, "code": error.code}
        for f in error.faults
        if f.field
    ]
    made = Problem(_STATUS.get(error.code, 422), error.code, str(error), fields=fields)
    made.audit = error.audit
    return made


def translated(error: Exception) -> Exception:
    """Convert a refusal; return any other error unchanged."""
    return problem_of(error) if isinstance(error, Refused) else error


section = Section(
    "publisher",
    {
        "publication": "/publications", "account": "/accounts",
        "brand": "/brands", "plan": "/plans", "slot": "/slots",
        "asset": "/assets", "template": "/templates",
    },
    login=auth.default(),
    shape=with_codes,
    translate=translated,
    rate=RATE,
)  # fmt: skip


def _schema() -> dict[str, Any]:
    """Return the schema of a payload, without references."""
    found = Content.model_json_schema()
    found["properties"]["media"]["items"] = found.pop("$defs")["Media"]
    return found


class PostIn(In):
    """A post for a channel."""

    channel: str = Field(max_length=100)
    payload: dict[str, Any] = Field(json_schema_extra=_schema())
    run_at: AwareDatetime | None = None
    publish_until: AwareDatetime | None = None
    idempotency_key: str = Field("", max_length=services.KEY_LIMIT)
    brand: str | None = Field(None, max_length=60)
    """The slug of the brand; may be left out where there is one."""
    account: UUID | None = None


class TestIn(In):
    """A channel and a time."""

    channel: str = Field(max_length=100)
    run_at: AwareDatetime | None = None
    brand: str | None = Field(None, max_length=60)
    account: UUID | None = None


class BulkIn(In):
    """Several posts; each is accepted or refused on its own."""

    jobs: list[PostIn] = Field(min_length=1, max_length=BULK)


class PublicationOut(Schema):
    """A publication."""

    id: UUID
    brand: str
    account: UUID
    channel: str
    type: Literal["publish", "ig_first_comment"]
    status: Literal["pending", "running", "completed", "failed"]
    reason: Literal["", "exhausted", "permanent", "expired", "cancelled", "in_doubt"]
    attempts: int
    error: str
    idempotency_key: str
    remote_id: str
    url: str
    parent: UUID | None
    scheduled_at: datetime
    run_at: datetime
    publish_until: datetime
    created_at: datetime


class PublicationPreviewOut(Schema):
    """A post as its channel would get it; nothing was stored."""

    preview: Literal[True] = True
    normalized: dict[str, Any]


class PublicationPage(Schema):
    """A page of publications, newest first."""

    data: list[PublicationOut]
    page: paging.PageOut


class RunnableOut(Schema):
    """Whether a post could run at a time."""

    runnable: bool
    in_blackout: bool
    has_collision: bool
    next_possible: datetime | None


class BulkItem(Schema):
    """What became of one of several posts."""

    id: UUID | None = None
    created: bool = False
    code: str = ""
    errors: list[dict[str, str]] = []


class PublicationBulkOut(Schema):
    """What became of several posts, in their order."""

    items: list[BulkItem]


class PublicationReplayIn(In):
    """The reason for a replay."""

    reason: str = Field(default="asked by API", min_length=1, max_length=500)


class PublicationFilters(Schema):
    """PublicationFilters of the list."""

    status: Literal["pending", "running", "completed", "failed"] | None = None
    channel: str | None = Field(None, max_length=64)
    search: str | None = Field(None, min_length=1, max_length=191)
    """A whole idempotency key, or a part of an error."""


class PublisherAccountOut(Schema):
    """An account, without its tokens."""

    id: UUID
    brand: str
    channel: str
    name: str
    remote_account: str
    status: Literal["connected", "needs_reconnect", "disabled"]
    expires_at: datetime | None
    created_at: datetime


class PublisherAccountPage(Schema):
    """A page of accounts, newest first."""

    data: list[PublisherAccountOut]
    page: paging.PageOut


class PublisherAlertOut(Schema):
    """Something that people should know about an account."""

    kind: alerts.Kind
    brand: str
    channel: str
    account: UUID
    name: str
    count: int


class PublisherAlertsOut(Schema):
    """The alerts of a period."""

    period: Literal["daily", "weekly"]
    items: list[PublisherAlertOut]


class AlertsFilter(Schema):
    """Which alerts: accounts and failures, or channels on which nothing is planned."""

    period: Literal["daily", "weekly"] = "daily"


class PublisherStatusOut(Schema):
    """How the publisher is doing, for the caller's brands."""

    pending: int
    due: int
    """Pending, and their time has come."""
    running: int
    failed: int
    in_doubt: int
    oldest_due: datetime | None
    needs_reconnect: int
    """Accounts."""


class SettingsOut(Schema):
    """The settings that can be changed here."""

    blackout_windows: list[windows.Window] = Field(alias="queue.blackout_windows")


class SettingsIn(In):
    """The new settings."""

    blackout_windows: list[windows.Window] = Field(alias="queue.blackout_windows", max_length=200)
    reason: str = Field(default="asked by API", min_length=1, max_length=500)


@section.post("/jobs", "publisher_job_create", needs=permissions.ENQUEUE_JOB,
    answer={200: PublicationOut | PublicationPreviewOut, 201: PublicationOut},
)  # fmt: skip
def job_create(request: HttpRequest, body: PostIn) -> Any:
    """Accept a post; 200 with the publication that has the key, where there is one."""
    try:
        made = _create(request, body)
    except Refused as error:
        raise problem_of(error) from None
    if isinstance(made, dict):
        return Status(200, made)
    return Status(201 if made.is_new else 200, shown(made.row))


@section.post("/jobs/test", "publisher_job_test", needs=permissions.VIEW_JOB,
    answer=RunnableOut,
)  # fmt: skip
def job_test(request: HttpRequest, body: TestIn) -> Any:
    """Test whether a post could run at a time; nothing is stored."""
    try:
        channel = services.channel_of(body.channel)
        account = services.account_of(_accounts(request), channel, body.brand, body.account)
        return times.test(account, body.run_at)
    except Refused as error:
        raise problem_of(error) from None


@section.post("/jobs/bulk", "publisher_job_bulk", needs=permissions.ENQUEUE_JOB,
    answer=PublicationBulkOut,
)  # fmt: skip
def job_bulk(request: HttpRequest, body: BulkIn) -> Any:
    """Accept several posts, each on its own."""
    return {"items": [_item(request, one) for one in body.jobs]}


def _item(request: HttpRequest, post: PostIn) -> dict[str, Any]:
    try:
        made = _create(request, post)
    except Refused as error:
        faults = [{"pointer": f"/{f.field}", "message": f.message} for f in error.faults]
        return {"code": error.code, "errors": faults}
    return {} if isinstance(made, dict) else {"id": made.row.pk, "created": made.is_new}


@section.get("/jobs", "publisher_job_list", needs=permissions.VIEW_JOB,
    answer=PublicationPage,
)  # fmt: skip
def job_list(
    request: HttpRequest,
    response: HttpResponse,
    filters: Query[PublicationFilters],
    wanted: Query[paging.PageIn],
) -> Any:
    """List publications, newest first."""
    asked = filters.model_dump(exclude_none=True)
    rows = _publications(request)
    if filters.status is not None:
        rows = rows.filter(status=filters.status)
    if filters.channel is not None:
        rows = rows.filter(channel=filters.channel)
    if filters.search is not None:
        rows = rows.filter(key=filters.search) | rows.filter(error__icontains=filters.search)
    found = paging.page(request, response, rows, wanted, moment="scheduled_at", filters=asked)
    return {**found, "data": [shown(row) for row in found["data"]]}


@section.get("/jobs/{uuid:job_id}", "publisher_job_get", needs=permissions.VIEW_JOB,
    answer=PublicationOut,
)  # fmt: skip
def job_get(request: HttpRequest, job_id: UUID) -> Any:
    """Get a publication."""
    return shown(_found(request, job_id))


@section.post("/jobs/{uuid:job_id}/replay", "publisher_job_replay",
    verb="publication.replay", answer=PublicationOut,
)  # fmt: skip
def job_replay(request: HttpRequest, job_id: UUID, body: PublicationReplayIn | None = None) -> Any:
    _found(request, job_id)
    try:
        verbs.replay(job_id, by=auth.who(request), reason=(body or PublicationReplayIn()).reason)
    except Refused as error:
        raise problem_of(error) from None
    return shown(_found(request, job_id))


@section.get("/dlq", "publisher_dlq_list", needs=permissions.VIEW_JOB,
    answer=PublicationPage,
)  # fmt: skip
def dlq_list(request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]) -> Any:
    """List publications that have failed and were not cancelled, newest first."""
    rows = _publications(request).filter(status=Publication.Status.FAILED)
    rows = rows.exclude(reason=Publication.Reason.CANCELLED)
    found = paging.page(request, response, rows, wanted, moment="scheduled_at")
    return {**found, "data": [shown(row) for row in found["data"]]}


@section.post("/dlq/{uuid:job_id}/retry", "publisher_dlq_retry", needs=permissions.RETRY_JOB,
    answer=PublicationOut,
)  # fmt: skip
def dlq_retry(request: HttpRequest, job_id: UUID, body: PublicationReplayIn | None = None) -> Any:
    """Run a failed publication again, under its own key: it cannot appear twice."""
    _found(request, job_id)
    try:
        verbs.replay(job_id, by=auth.who(request), reason=(body or PublicationReplayIn()).reason)
    except Refused as error:
        raise problem_of(error) from None
    return shown(_found(request, job_id))


@section.get("/accounts", "publisher_account_list", needs=verbs.VIEW_ACCOUNT,
    answer=PublisherAccountPage,
)  # fmt: skip
def account_list(request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]) -> Any:
    """List accounts, newest first."""
    rows = _accounts(request).select_related("brand")
    found = paging.page(request, response, rows, wanted)
    return {**found, "data": [_account(row) for row in found["data"]]}


def _account(row: Account) -> dict[str, Any]:
    return {
        "id": row.pk, "brand": row.brand.slug, "channel": row.channel, "name": row.name,
        "remote_account": row.remote_account, "status": row.status,
        "expires_at": row.expires_at, "created_at": row.created_at,
    }  # fmt: skip


@section.get("/alerts", "publisher_alerts_get", needs=verbs.VIEW_ACCOUNT,
    answer=PublisherAlertsOut,
)  # fmt: skip
def alerts_get(request: HttpRequest, wanted: Query[AlertsFilter]) -> Any:
    """Get what the daily or the weekly mail would say now."""
    found = alerts.of(wanted.period, _accounts(request))
    return {"period": wanted.period, "items": [dataclasses.asdict(one) for one in found]}


@section.get("/status", "publisher_status_get", needs=permissions.VIEW_JOB,
    answer=PublisherStatusOut,
)  # fmt: skip
def status_get(request: HttpRequest) -> Any:
    """Count what waits, runs and has failed."""
    due = Q(status=Publication.Status.PENDING, run_at__lte=now())
    found: dict[str, Any] = _publications(request).aggregate(
        pending=Count("pk", Q(status="pending")), due=Count("pk", due),
        running=Count("pk", Q(status="running")), failed=Count("pk", Q(status="failed")),
        in_doubt=Count("pk", Q(reason=Publication.Reason.IN_DOUBT)),
        oldest_due=Min("run_at", filter=due),
    )  # fmt: skip
    lost = _accounts(request).filter(status=Account.Status.NEEDS_RECONNECT)
    return {**found, "needs_reconnect": lost.count()}


@section.get("/settings", "publisher_settings_get", needs=permissions.VIEW_BLACKOUT,
    answer=SettingsOut, by_alias=True,
)  # fmt: skip
def settings_get(request: HttpRequest) -> Any:
    """Get the blackout windows."""
    return {"queue.blackout_windows": windows.read()}


@section.post("/settings", "publisher_settings_set", needs=permissions.MANAGE_BLACKOUT,
    answer=SettingsOut, by_alias=True,
)  # fmt: skip
def settings_set(request: HttpRequest, body: SettingsIn) -> Any:
    """Replace the blackout windows, all of them or none."""
    try:
        windows.replace(body.blackout_windows, by=auth.who(request), reason=body.reason)
    except Refused as error:
        raise problem_of(error) from None
    return {"queue.blackout_windows": windows.read()}


def _create(request: HttpRequest, body: PostIn) -> services.Enqueued | dict[str, Any]:
    channel = services.channel_of(body.channel)
    post = _content(body.payload)
    if post.preview:
        return {"preview": True, "normalized": services.preview(channel, post)}
    account = services.account_of(_accounts(request), channel, body.brand, body.account)
    return services.enqueue(
        account, post, run_at=body.run_at, publish_until=body.publish_until,
        idempotency_key=body.idempotency_key,
    )  # fmt: skip


def _content(raw: dict[str, Any]) -> Content:
    try:
        return Content.model_validate(raw)
    except ValidationError as error:
        faults = (
            Fault("/".join(["payload", *map(str, one["loc"])]), one["msg"])
            for one in error.errors(include_input=False, include_url=False)[:20]
        )
        raise Refused(services.INVALID_JOB, *faults) from None


def _found(request: HttpRequest, job_id: UUID) -> Publication:
    row = _publications(request).filter(pk=job_id).first()
    if row is None:
        raise Problem(404, "not-found", "there is no such publication")
    return row


def _accounts(request: HttpRequest) -> QuerySet[Account]:
    return within(request, Account.objects.all())


def _publications(request: HttpRequest) -> QuerySet[Publication]:
    return within(request, Publication.objects.select_related("brand"))


def within(request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
    """Restrict rows to the caller's brands; to none for a caller of other queues."""
    scope = auth.who(request).scope
    if not scope.covers(queue=config.QUEUE):
        return rows.none()
    return rows if scope.tenants is None else rows.filter(tenant__in=scope.tenants)


def shown(row: Publication) -> dict[str, Any]:
    """Return a publication for an answer."""
    return {
        "id": row.pk, "brand": row.tenant.removeprefix("brand:"), "account": row.account_id,
        "channel": row.channel, "type": row.type, "status": row.status, "reason": row.reason,
        "attempts": row.attempts, "error": row.error, "idempotency_key": row.key,
        "remote_id": row.remote_id, "url": row.url, "parent": row.parent_id,
        "scheduled_at": row.scheduled_at, "run_at": row.run_at,
        "publish_until": row.publish_until, "created_at": row.created_at,
    }  # fmt: skip
