"""Causes: what dead letters died of, decided upon together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status
from pydantic import ConfigDict

from jobs.api import auth
from jobs.api.bulks import BulkOut, told_bulk
from jobs.api.endpoints import In, Section
from jobs.api.schemas import WhyIn
from jobs.models import Bulk
from jobs.operate import causes
from jobs.operate.bulkplans import Care

section = Section("failures")
_RESOLVE: dict[str, Any] = {"needs": "resolve_deadletter"}
CauseState = Literal["open", "ignored", "resolved"]


class CauseOut(Schema):
    """One normalised error; ``open`` dead letters are counted up to ten thousand."""

    fingerprint: str
    sample: str
    state: CauseState
    ignored_until: datetime | None
    note: str
    decided_by: str
    decided_at: datetime | None
    reopened: int
    count: int
    open: int
    first_at: datetime
    last_at: datetime
    kinds: dict[str, int]


class CausesIn(Schema):
    """Causes in which states."""

    model_config = ConfigDict(extra="forbid")
    state: list[CauseState] = Field(default_factory=list, max_length=3)
    limit: int = Field(100, ge=1, le=200)


class IgnoreIn(WhyIn):
    """Until when; without that until somebody reopens it."""

    until: datetime | None = None


class CauseNoteIn(In):
    """What everybody sees beside it; an empty note takes it away."""

    text: str = Field(max_length=500)


class AllIn(WhyIn):
    """How carefully all of them are dealt with."""

    per_minute: int | None = Field(None, ge=1, le=1_000_000)
    canary: int = Field(0, ge=0, le=1000)
    stop_at: float | None = Field(None, gt=0, le=1)


class DiscardAllIn(WhyIn):
    """How fast all of them are discarded."""

    per_minute: int | None = Field(None, ge=1, le=1_000_000)


@section.get("/failures", "cause_list", needs="view_deadletter", answer=list[CauseOut])
def cause_list(request: HttpRequest, wanted: Query[CausesIn]) -> Any:
    """Causes, the latest first; the open ones where no state is named."""
    return causes.every(*wanted.state, by=auth.who(request), limit=wanted.limit)


@section.get(
    "/failures/{fingerprint}", "cause_get", needs="view_deadletter", answer=CauseOut
)  # fmt: skip
def cause_get(request: HttpRequest, fingerprint: str) -> Any:
    """One cause."""
    return causes.find(fingerprint, by=auth.who(request))


@section.post(
    "/failures/{fingerprint}/ignore", "cause_ignore", answer=CauseOut, verb="cause.ignore",
    **_RESOLVE,
)  # fmt: skip
def cause_ignore(request: HttpRequest, fingerprint: str, body: IgnoreIn) -> Any:
    """It is known, and nothing to look at."""
    return causes.ignore(fingerprint, by=auth.who(request), reason=body.reason, until=body.until)


@section.post(
    "/failures/{fingerprint}/resolve", "cause_resolve", answer=CauseOut, verb="cause.resolve",
    **_RESOLVE,
)  # fmt: skip
def cause_resolve(request: HttpRequest, fingerprint: str, body: WhyIn) -> Any:
    """It is believed to be gone; it is open again where it comes back."""
    return causes.resolve(fingerprint, by=auth.who(request), reason=body.reason)


@section.post(
    "/failures/{fingerprint}/reopen", "cause_reopen", answer=CauseOut, verb="cause.reopen",
    **_RESOLVE,
)  # fmt: skip
def cause_reopen(request: HttpRequest, fingerprint: str, body: WhyIn) -> Any:
    """It wants to be looked at again."""
    return causes.reopen(fingerprint, by=auth.who(request), reason=body.reason)


@section.post(
    "/failures/{fingerprint}/note", "cause_note", answer=CauseOut, verb="cause.note", **_RESOLVE
)  # fmt: skip
def cause_note(request: HttpRequest, fingerprint: str, body: CauseNoteIn) -> Any:
    """The note beside it is another."""
    return causes.note(fingerprint, body.text, by=auth.who(request))


_ALL: dict[str, Any] = {"needs": "resolve_deadletter", "answer": {202: BulkOut}}


@section.post("/failures/{fingerprint}/retry", "cause_retry_all", verb="cause.retry_all", **_ALL)
def cause_retry_all(
    request: HttpRequest, response: HttpResponse, fingerprint: str, body: AllIn
) -> Any:
    """A bulk operation retries every job that died of it and waits for a decision."""
    return _begun(request, response, causes.retry_all, fingerprint, body)


@section.post("/failures/{fingerprint}/replay", "cause_replay_all", verb="cause.replay_all", **_ALL)
def cause_replay_all(
    request: HttpRequest, response: HttpResponse, fingerprint: str, body: AllIn
) -> Any:
    """A bulk operation replays every job that died of it and waits for a decision."""
    return _begun(request, response, causes.replay_all, fingerprint, body)


@section.post(
    "/failures/{fingerprint}/discard", "cause_discard_all", verb="cause.discard_all", **_ALL
)
def cause_discard_all(
    request: HttpRequest, response: HttpResponse, fingerprint: str, body: DiscardAllIn
) -> Any:
    """A bulk operation discards every open dead letter of it."""
    return _begun(request, response, causes.discard_all, fingerprint, body)


def _begun(
    request: HttpRequest, response: HttpResponse, verb: Callable[..., Bulk], fingerprint: str,
    body: AllIn | DiscardAllIn,
) -> Any:  # fmt: skip
    care = Care(**body.model_dump(exclude={"reason"}))
    made = verb(fingerprint, by=auth.who(request), reason=body.reason, care=care)
    base = request.path.rpartition("/failures/")[0]
    response["Location"] = f"{base}/bulk-operations/{made.id}"
    return Status(202, told_bulk(made))
