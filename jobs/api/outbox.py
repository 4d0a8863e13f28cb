"""Events that are not in the feed yet, effects in doubt, and circuit breakers."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Schema

from jobs.api import auth, conditional, paging
from jobs.api.sections import Section
from jobs.models import Breaker, Effect, Outbox
from jobs.operate import breakers, doubts, sight
from jobs.operate.permissions import VIEW_BREAKER, VIEW_EFFECT, VIEW_OUTBOX, VIEW_PAYLOAD
from jobs.operate.shown import public_data
from jobs.principals import Principal

section = Section("outbox", {"event": "/outbox"})
effects = Section("effects", {"effect": "/effects"})
circuits = Section("breakers", {"breaker": "/breakers"})
OutboxStateIn = Literal["pending", "failed", "parked", "discarded"]
Number = "/{int:number}"


class WaitingOut(Schema):
    """An event in the outbox."""

    number: int
    id: UUID
    topic: str
    key: str
    tenant: str
    state: str
    is_held: bool
    tries: int
    error: str
    due_at: datetime | None
    occurred_at: datetime


class OutboxIn(paging.PageIn):
    """Which events."""

    state: OutboxStateIn | None = None


class OutboxStatsOut(Schema):
    """How many events wait, by their state, at most ten thousand of each, and how long."""

    states: dict[str, int]
    oldest_ms: int | None


def _told(row: Outbox) -> dict[str, Any]:
    names = ["topic", "key", "tenant", "state", "tries", "error", "due_at", "occurred_at"]
    told = {name: getattr(row, name) for name in names}
    return {**told, "number": row.pk, "id": row.event_id, "is_held": row.held}


def _event(who: Principal, number: int) -> Outbox:
    return sight.one(sight.outbox(who), "event", number)


@section.get("/outbox", "outbox_list", needs=VIEW_OUTBOX, answer=paging.Listed[WaitingOut])
def outbox_list(request: HttpRequest, response: HttpResponse, wanted: Query[OutboxIn]) -> Any:
    """Events that wait, newest first."""
    rows = sight.outbox(auth.who(request))
    if wanted.state is not None:
        rows = rows.filter(state=wanted.state)
    filters = {"state": wanted.state}
    found = paging.page(request, response, rows, wanted, moment="occurred_at", filters=filters)
    return {**found, "data": [_told(row) for row in found["data"]]}


@section.get("/outbox/stats", "outbox_stats", needs=VIEW_OUTBOX, answer=OutboxStatsOut)
def outbox_stats(request: HttpRequest) -> Any:
    """How much waits, and how long."""
    from jobs.engine import sql

    rows = sight.outbox(auth.who(request))
    states = {
        state: len(rows.filter(state=state).values_list("pk", flat=True)[:10_000])
        for state in ("pending", "failed", "parked")
    }
    first = rows.exclude(state="discarded").order_by("id").values_list("occurred_at", flat=True)
    oldest = first.first()
    [(now,)] = sql.rows("SELECT jobs_clock()")
    waited = None if oldest is None else max(0, round((now - oldest).total_seconds() * 1000))
    return {"states": states, "oldest_ms": waited}


@section.get("/outbox" + Number, "outbox_get", needs=VIEW_OUTBOX, answer=WaitingOut)
def outbox_get(request: HttpRequest, response: HttpResponse, number: int) -> Any:
    """One event that waits."""
    row = _event(auth.who(request), number)
    return conditional.fresh(request, response, conditional.tag(row)) or _told(row)


def _after(who: Principal, number: int, found: None) -> Any:
    return _told(_event(who, number))


_POST = {"answer": WaitingOut}


section.does(
    "event.park",
    "/outbox" + Number + "/park",
    "outbox_park",
    **_POST,
    show=_after,
)


section.does(
    "event.publish",
    "/outbox" + Number + "/publish",
    "outbox_publish",
    **_POST,
    show=_after,
)


section.does(
    "event.discard",
    "/outbox" + Number + "/discard",
    "outbox_discard",
    **_POST,
    show=_after,
)


class EffectOut(Schema):
    """A side effect of a job."""

    id: int
    job_id: UUID
    key: str
    state: str
    attempt: int
    request: Any = None
    outcome: Any = None
    resolution: str
    intended_at: datetime
    settled_at: datetime | None


class ResolvedOut(Schema):
    """What the decision led to."""

    effect_id: int
    job_id: UUID
    retried: bool


def _effect(who: Principal, row: Effect) -> dict[str, Any]:
    names = ["id", "job_id", "key", "state", "attempt", "resolution", "intended_at", "settled_at"]
    told = {name: getattr(row, name) for name in names}
    if who.may(VIEW_PAYLOAD):
        told["request"], told["outcome"] = public_data(row.request), public_data(row.outcome)
    return told


@effects.get("/effects/in-doubt", "effect_list", needs=VIEW_EFFECT, answer=paging.Listed[EffectOut])
def effect_list(request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]) -> Any:
    """Effects that wait for a decision, newest first."""
    who = auth.who(request)
    rows = sight.within(doubts.open_doubts(), who, tenant="job__tenant", queue="job__queue")
    found = paging.page(request, response, rows, wanted, moment="intended_at")
    return {**found, "data": [_effect(who, row) for row in found["data"]]}


@effects.get("/effects" + Number, "effect_get", needs=VIEW_EFFECT, answer=EffectOut)
def effect_get(request: HttpRequest, number: int) -> Any:
    """One effect."""
    who = auth.who(request)
    return _effect(who, sight.one(sight.effects(who), "effect", number))


effects.does(
    "effect.resolve",
    "/effects" + Number + "/resolve",
    "effect_resolve",
    answer=ResolvedOut,
    show=lambda who, number, found: found,
)


class BreakerOut(Schema):
    """A circuit breaker."""

    name: str
    state: str
    failures: int
    threshold: int
    open_for_ms: int
    opened_at: datetime | None
    retry_at: datetime | None
    last_error: str


def _breaker(row: Breaker) -> dict[str, Any]:
    names = ["name", "state", "failures", "threshold", "opened_at", "retry_at", "last_error"]
    return {
        **{name: getattr(row, name) for name in names},
        "open_for_ms": round(row.open_for * 1000),
    }


@circuits.get("/breakers", "breaker_list", needs=VIEW_BREAKER, answer=list[BreakerOut])
def breaker_list(request: HttpRequest) -> Any:
    """Circuit breakers, those that are not closed first."""
    if not auth.who(request).scope.is_everything:
        return []
    return [_breaker(row) for row in breakers.known()[:1000]]


def _shown(who: Principal, name: str, found: None) -> Any:
    return _breaker(breakers.known().get(name=name))


circuits.does(
    "breaker.close",
    "/breakers/reset",
    "breaker_reset",
    answer=BreakerOut,
    show=_shown,
)


circuits.does(
    "breaker.open",
    "/breakers/open",
    "breaker_open",
    answer=BreakerOut,
    show=_shown,
)
