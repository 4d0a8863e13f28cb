"""The operations of posts: accept one, ask whether a time would work, list, and replay."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeVar
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import AwareDatetime, GetJsonSchemaHandler, RootModel, ValidationError

from jobs.api import In, Problem, auth, paging
from jobs.verbs import permissions
from publisher import repeats, services, times, verbs
from publisher.api import accounts_of, problem_of, section, within
from publisher.content import Content
from publisher.errors import Fault, Faults, Refused
from publisher.models import Account, Publication

BULK = 100
P = TypeVar("P", bound=In)


class Post(In):
    """A post for a channel."""

    channel: str = Field(max_length=100)
    payload: Content
    run_at: AwareDatetime | None = None
    publish_until: AwareDatetime | None = None
    idempotency_key: str = Field("", max_length=services.KEY_LIMIT)
    brand: str | None = Field(None, max_length=60)
    """The slug of the brand; may be left out where there is one."""
    account: UUID | None = None


class _PartOfPost(Post):
    """What can be read of a post that has faults."""

    channel: str | None = None  # type: ignore[assignment]
    payload: Content | None = None  # type: ignore[assignment]


class Moment(In):
    """A channel and a time."""

    channel: str = Field(max_length=100)
    run_at: AwareDatetime | None = None
    brand: str | None = Field(None, max_length=60)
    account: UUID | None = None


class _PartOfMoment(Moment):
    """What can be read of a channel and a time that have faults."""

    channel: str | None = None  # type: ignore[assignment]


class PostIn(RootModel[dict[str, Any]]):
    """A post as it was sent: read later, so that all of its faults are found at once."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> Any:
        return handler(Post.__pydantic_core_schema__)


class TestIn(RootModel[dict[str, Any]]):
    """A channel and a time as they were sent."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> Any:
        return handler(Moment.__pydantic_core_schema__)


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


class PublicationMadeOut(PublicationOut):
    """A new publication."""

    warnings: list[str]
    """What other posts of the account have in common with it: their text, or their hour."""


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
    warnings: list[str] = []


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


@section.post("/jobs", "publisher_job_create", needs=permissions.ENQUEUE_JOB,
    answer={200: PublicationOut | PublicationPreviewOut, 201: PublicationMadeOut},
)  # fmt: skip
def job_create(request: HttpRequest, body: PostIn) -> Any:
    """Accept a post; 200 with the publication that has the key, where there is one."""
    try:
        made = _create(request, body)
    except Refused as error:
        raise problem_of(error) from None
    if isinstance(made, dict):
        return Status(200, made)
    return Status(201, _made(made.row)) if made.is_new else Status(200, shown(made.row))


def _made(row: Publication) -> dict[str, Any]:
    """Return a new publication for an answer, with what is alike."""
    return {**shown(row), "warnings": _warnings(row)}


def _warnings(row: Publication) -> list[str]:
    text = str(row.content.get("caption", ""))
    found = repeats.warnings(row.account, text, row.scheduled_at, post=row.pk)
    return [one.words for one in found]


@section.post("/jobs/test", "publisher_job_test", needs=permissions.VIEW_JOB,
    answer=RunnableOut,
)  # fmt: skip
def job_test(request: HttpRequest, body: TestIn) -> Any:
    """Test whether a post could run at a time; nothing is stored."""
    found = Faults(services.INVALID_CHANNEL, services.INVALID_JOB, services.INVALID_PLAN)
    asked = _read(body.root, found, Moment, _PartOfMoment)
    _, account = _place(request, asked, found)
    if account is None or found.found:
        raise problem_of(found.refusal())
    return times.test(account, asked.run_at)


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
        faults = [
            {"pointer": f"/{f.field}", "message": f.message, "code": f.code or error.code}
            for f in error.faults
        ]
        return {"code": error.code, "errors": faults}
    if isinstance(made, dict):
        return {}
    warnings = _warnings(made.row) if made.is_new else []
    return {"id": made.row.pk, "created": made.is_new, "warnings": warnings}


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
    return _replayed(request, job_id, body)


for _verb in ("settle", "cancel"):
    section.does(
        f"publication.{_verb}", f"/publications/{{uuid:publication_id}}/{_verb}",
        f"publication_{_verb}", answer=PublicationOut,
        show=lambda who, target, result: shown(_row(target)),
    )  # fmt: skip
section.does(
    "publication.move", "/publications/{uuid:publication_id}/move", "publication_move",
    answer=PublicationMadeOut, show=lambda who, target, result: _made(_row(result)),
)  # fmt: skip
section.does(
    "account.schedule", "/accounts/{uuid:account_id}/schedule", "account_schedule",
    answer=PublicationMadeOut, show=lambda who, target, result: _made(_row(result)),
)  # fmt: skip


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
    return _replayed(request, job_id, body)


def _replayed(request: HttpRequest, job_id: UUID, body: PublicationReplayIn | None) -> Any:
    _found(request, job_id)
    try:
        verbs.replay(job_id, by=auth.who(request), reason=(body or PublicationReplayIn()).reason)
    except Refused as error:
        raise problem_of(error) from None
    return shown(_found(request, job_id))


def _create(request: HttpRequest, body: PostIn) -> services.Enqueued | dict[str, Any]:
    found = Faults(
        services.INVALID_CHANNEL, services.INVALID_JOB, services.INVALID_PLAN, services.BLOCKED
    )
    asked = _read(body.root, found, Post, _PartOfPost)
    post = asked.payload
    if post and post.preview and asked.channel is not None and not found.found:
        shown = services.preview(services.channel_of(asked.channel), post)
        return {"preview": True, "normalized": shown}
    channel, account = _place(request, asked, found)
    if account and post and not found.found:
        return services.enqueue(
            account, post, run_at=asked.run_at, publish_until=asked.publish_until,
            idempotency_key=asked.idempotency_key,
        )  # fmt: skip
    if channel and post:
        found.within("", services.review, channel, post, account)
    raise found.refusal()


def _place(
    request: HttpRequest, asked: _PartOfPost | _PartOfMoment, found: Faults
) -> tuple[str | None, Account | None]:
    """Return the channel and the account that are meant, as far as there are any."""
    if asked.channel is None:
        return None, None
    if (channel := found.within("", services.channel_of, asked.channel)) is None:
        return None, None
    rows = accounts_of(request)
    return channel, found.within("", services.account_of, rows, channel, asked.brand, asked.account)


def _read(raw: dict[str, Any], found: Faults, whole: type[In], part: type[P]) -> P:
    """Return what can be read of a request."""
    try:
        return part.model_construct(**dict(whole.model_validate(raw)))
    except ValidationError as error:
        errors = error.errors(include_input=False, include_url=False)[:20]
    for one in errors:
        code = services.INVALID_CHANNEL if one["loc"][0] == "channel" else services.INVALID_JOB
        found.found.append(
            Fault("/".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, "), code)
        )
    wrong = {one["loc"][0] for one in errors}
    return part.model_validate({n: value for n, value in raw.items() if n not in wrong})


def _found(request: HttpRequest, job_id: UUID) -> Publication:
    row = _publications(request).filter(pk=job_id).first()
    if row is None:
        raise Problem(404, "not-found", "there is no such publication")
    return row


def _row(publication_id: Any) -> Publication:
    return Publication.objects.select_related("account__brand").get(pk=publication_id)


def _publications(request: HttpRequest) -> QuerySet[Publication]:
    return within(request, Publication.objects.select_related("brand"))


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
