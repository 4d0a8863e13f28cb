"""Dead letters: failed jobs that wait for somebody's decision."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Status

from jobs.api import auth, conditional, paging, sight
from jobs.api.endpoints import Section
from jobs.api.jobs import replayed
from jobs.api.schemas import LetterOut, ReplayedOut, ReplayIn, RetryIn
from jobs.api.told import told_letter
from jobs.engine import sql
from jobs.errors import NotAllowed
from jobs.models import DeadLetter
from jobs.operate.retry import retry
from jobs.principals import Principal

section = Section("dead-letters")
LetterState = Literal["open", "retried", "replayed", "discarded", "expired"]


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
    needs="retry_job",
    answer=LetterOut,
    verb="job.retry",
)
def deadletter_retry(request: HttpRequest, number: int, body: RetryIn) -> Any:
    """The failed job itself again; the dead letter is closed."""
    who = auth.need(request, "resolve_deadletter")
    letter = _open(who, number)
    retry(letter.job_id, by=who, reason=body.reason, attempts=body.attempts)
    return told_letter(_seen(who, number), history=True)


@section.post(
    "/dead-letters/{int:number}/replay",
    "deadletter_replay",
    needs="replay_job",
    answer={201: ReplayedOut},
    verb="job.replay",
)
def deadletter_replay(request: HttpRequest, number: int, body: ReplayIn) -> Any:
    """A new job carries the payload on; the dead letter is closed."""
    who = auth.need(request, "resolve_deadletter")
    letter = _open(who, number)
    return Status(201, {"id": replayed(who, letter.job_id, body)})


def _seen(who: Principal, number: int) -> DeadLetter:
    return sight.one(sight.letters(who), "deadletter", number)


def _open(who: Principal, number: int) -> DeadLetter:
    """The dead letter, which is open and stays so until this transaction ends."""
    job_id = _seen(who, number).job_id
    # The job's row is the lock of both, and comes before its letters.
    sql.rows("SELECT 1 FROM jobs_job WHERE id = %s FOR NO KEY UPDATE", [job_id])
    letter = _seen(who, number)
    if letter.state != "open":
        raise NotAllowed("decide about", letter.job_id, letter.state, ["open"])
    return letter
