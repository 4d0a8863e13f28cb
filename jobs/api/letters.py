"""Dead letters: failed jobs that wait for somebody's decision."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema

from jobs.api import auth, conditional, paging
from jobs.api.numbers import NumberOut
from jobs.api.schemas import LetterOut, ReplayedOut
from jobs.api.sections import Section
from jobs.api.told import told_letter
from jobs.models import DeadLetter
from jobs.operate import deaths, sight
from jobs.operate.permissions import VIEW_DEADLETTER
from jobs.principals import Principal

section = Section("dead-letters", {"deadletter": "/dead-letters"})
LetterState = Literal["open", "retried", "replayed", "discarded", "expired"]


class LettersIn(paging.PageIn):
    """Which dead letters."""

    state: LetterState | None = "open"
    kind: str | None = Field(None, max_length=120)
    fingerprint: str | None = Field(None, max_length=200)


@section.get(
    "/dead-letters", "deadletter_list", needs=VIEW_DEADLETTER, answer=paging.Listed[LetterOut]
)
def deadletter_list(request: HttpRequest, response: HttpResponse, wanted: Query[LettersIn]) -> Any:
    """Dead letters, newest first; the open ones unless a state is given."""
    rows = sight.letters(auth.who(request))
    filters = {
        name: value
        for name in ("state", "kind", "fingerprint")
        if (value := getattr(wanted, name)) is not None
    }
    found = paging.page(
        request, response, rows.filter(**filters), wanted, moment="opened_at", filters=filters
    )
    return {**found, "data": [told_letter(letter) for letter in found["data"]]}


class LettersStatsOut(Schema):
    """How many wait, since when, and how many came."""

    open: NumberOut
    oldest_at: datetime | None
    last_hour: NumberOut
    last_day: NumberOut


@section.get(
    "/dead-letters/stats", "deadletter_stats", needs=VIEW_DEADLETTER, answer=LettersStatsOut
)  # fmt: skip
def deadletter_stats(request: HttpRequest) -> Any:
    """Numbers of dead letters."""
    return deaths.health(by=auth.who(request))


@section.get(
    "/dead-letters/{int:number}", "deadletter_get", needs=VIEW_DEADLETTER, answer=LetterOut
)
def deadletter_get(request: HttpRequest, response: HttpResponse, number: int) -> Any:
    """One dead letter."""
    letter = _seen(auth.who(request), number)
    tag = conditional.tag(letter)
    return conditional.fresh(request, response, tag) or told_letter(letter, history=True)


def _letter(who: Principal, number: int, found: UUID) -> Any:
    return told_letter(_seen(who, number), history=True)


section.does(
    "deadletter.retry",
    "/dead-letters/{int:number}/retry",
    "deadletter_retry",
    answer=LetterOut,
    show=_letter,
)


section.does(
    "deadletter.replay",
    "/dead-letters/{int:number}/replay",
    "deadletter_replay",
    answer={201: ReplayedOut},
    location="/jobs/{id}",
    show=lambda who, number, new: {"id": new},
)


section.does(
    "deadletter.discard",
    "/dead-letters/{int:number}/discard",
    "deadletter_discard",
    answer=LetterOut,
    show=_letter,
)


def _seen(who: Principal, number: int) -> DeadLetter:
    return sight.one(sight.letters(who), "deadletter", number)
