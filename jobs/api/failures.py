"""Causes: what dead letters died of, decided upon together."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Field, Query, Schema
from pydantic import ConfigDict

from jobs.api import auth
from jobs.api.bulks import BulkOut, told_bulk
from jobs.api.sections import Section
from jobs.operate import causes
from jobs.operate.permissions import VIEW_DEADLETTER

section = Section("failures", {"cause": "/failures"})
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


@section.get("/failures", "cause_list", needs=VIEW_DEADLETTER, answer=list[CauseOut])
def cause_list(request: HttpRequest, wanted: Query[CausesIn]) -> Any:
    """Causes, the latest first; the open ones where no state is named."""
    return causes.every(*wanted.state, by=auth.who(request), limit=wanted.limit)


@section.get(
    "/failures/{fingerprint}", "cause_get", needs=VIEW_DEADLETTER, answer=CauseOut
)  # fmt: skip
def cause_get(request: HttpRequest, fingerprint: str) -> Any:
    """One cause."""
    return causes.find(fingerprint, by=auth.who(request))


section.does(
    "cause.ignore",
    "/failures/{fingerprint}/ignore",
    "cause_ignore",
    answer=CauseOut,
    show=lambda who, fingerprint, found: found,
)


section.does(
    "cause.resolve",
    "/failures/{fingerprint}/resolve",
    "cause_resolve",
    answer=CauseOut,
    show=lambda who, fingerprint, found: found,
)


section.does(
    "cause.reopen",
    "/failures/{fingerprint}/reopen",
    "cause_reopen",
    answer=CauseOut,
    show=lambda who, fingerprint, found: found,
)


section.does(
    "cause.note",
    "/failures/{fingerprint}/note",
    "cause_note",
    answer=CauseOut,
    show=lambda who, fingerprint, found: found,
)


_ALL: dict[str, Any] = {
    "answer": {202: BulkOut},
    "location": "/bulk-operations/{id}",
    "show": lambda who, fingerprint, made: told_bulk(made),
}


section.does("cause.retry_all", "/failures/{fingerprint}/retry", "cause_retry_all", **_ALL)
section.does("cause.replay_all", "/failures/{fingerprint}/replay", "cause_replay_all", **_ALL)
section.does("cause.discard_all", "/failures/{fingerprint}/discard", "cause_discard_all", **_ALL)
