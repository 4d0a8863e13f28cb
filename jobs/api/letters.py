"""Dead letters: failed jobs that wait for somebody's decision."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema, Status

from jobs.api import auth, conditional, paging, sight
from jobs.api.endpoints import Section
from jobs.api.numbers import NumberOut
from jobs.api.schemas import LetterOut, LetterRetryIn, MaybeWhyIn, ReplayedOut, WhyIn
from jobs.api.told import told_letter
from jobs.models import DeadLetter
from jobs.operate import deadletters, deaths
from jobs.principals import Principal

section = Section("dead-letters")
LetterState = Literal["open", "retried", "replayed", "discarded", "expired"]


class LetterReplayIn(MaybeWhyIn):
    """Members of the payload that are to be others."""

    payload_patch: dict[str, Any] | None = None
    same_lineage: bool = True


class LettersIn(paging.PageIn):
    """Which dead letters."""

    state: LetterState | None = "open"
    kind: str | None = Field(None, max_length=120)
    fingerprint: str | None = Field(None, max_length=200)


@section.get(
    "/dead-letters", "deadletter_list", needs="view_deadletter", answer=paging.Listed[LetterOut]
)
def deadletter_list(request: HttpRequest, response: HttpResponse, wanted: Query[LettersIn]) -> Any:
    """Dead letters, newest first; the open ones where no state is named."""
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
    "/dead-letters/stats", "deadletter_stats", needs="view_deadletter", answer=LettersStatsOut
)  # fmt: skip
def deadletter_stats(request: HttpRequest) -> Any:
    """How it stands with dead letters."""
    return deaths.health(by=auth.who(request))


@section.get(
    "/dead-letters/{int:number}", "deadletter_get", needs="view_deadletter", answer=LetterOut
)
def deadletter_get(request: HttpRequest, response: HttpResponse, number: int) -> Any:
    """One dead letter."""
    letter = _seen(auth.who(request), number)
    tag = conditional.tag(letter)
    return conditional.fresh(request, response, tag) or told_letter(letter, history=True)


@section.post(
    "/dead-letters/{int:number}/retry",
    "deadletter_retry",
    needs="resolve_deadletter",
    answer=LetterOut,
    verb="deadletter.retry",
)
def deadletter_retry(request: HttpRequest, number: int, body: LetterRetryIn) -> Any:
    """The failed job itself again; the dead letter is closed."""
    who = auth.who(request)
    deadletters.retry_letter(number, by=who, **body.model_dump())
    return told_letter(_seen(who, number), history=True)


@section.post(
    "/dead-letters/{int:number}/replay",
    "deadletter_replay",
    needs="resolve_deadletter",
    answer={201: ReplayedOut},
    verb="deadletter.replay",
)
def deadletter_replay(request: HttpRequest, number: int, body: LetterReplayIn) -> Any:
    """A new job carries the payload on; the dead letter is closed."""
    who = auth.who(request)
    new = deadletters.replay_letter(number, by=who, **body.model_dump())
    return Status(201, {"id": new})


@section.post(
    "/dead-letters/{int:number}/discard",
    "deadletter_discard",
    needs="resolve_deadletter",
    answer=LetterOut,
    verb="deadletter.discard",
)
def deadletter_discard(request: HttpRequest, number: int, body: WhyIn) -> Any:
    """Nothing is to be done; the dead letter is closed."""
    who = auth.who(request)
    deadletters.discard_letter(number, by=who, reason=body.reason)
    return told_letter(_seen(who, number), history=True)


def _seen(who: Principal, number: int) -> DeadLetter:
    return sight.one(sight.letters(who), "deadletter", number)
